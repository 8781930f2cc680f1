"""Writing data files: Parquet with metrics, partition transforms, fan-out."""
