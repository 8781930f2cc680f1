"""Spark's `rewrite_data_files` on one table of a REST catalog: run by Spark's own Python, prints seconds and bytes.

Arguments: catalog URI, table, target size in bytes, folder of the Iceberg jars. Run by `bench_compaction`.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession  # type: ignore[import-not-found]


def main() -> None:
    """Warm Spark up on another table, then rewrite the table once."""
    uri, table, target, jars = sys.argv[1:5]
    prefix = "spark.sql.catalog.ice"
    options = {
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in sorted(Path(jars).glob("*.jar"))),
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalogImplementation": "in-memory",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": uri,
        "spark.sql.defaultCatalog": "ice",
    }
    builder = SparkSession.builder.appName("bench").master("local[2]")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql("CREATE TABLE bench.warm AS SELECT id, cast(id AS string) AS s FROM range(100000)")
    spark.sql("INSERT INTO bench.warm SELECT id, cast(id AS string) AS s FROM range(100000)")
    call = "CALL ice.system.rewrite_data_files(table => '{}', options => map({}))"
    every = "'rewrite-all', 'true', 'max-concurrent-file-group-rewrites', '2'"
    spark.sql(call.format("bench.warm", every)).collect()
    start = time.perf_counter()
    sizes = f"'target-file-size-bytes', '{target}', 'min-input-files', '2', "
    told = spark.sql(call.format(table, sizes + every)).collect()[0].asDict()
    seconds = time.perf_counter() - start
    java = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()[0])
    peak = next(
        int(line.split()[1]) // 1024
        for line in Path(f"/proc/{java}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    print("RESULT " + json.dumps({"seconds": seconds, "peak_mb": peak, **told}))
    spark.stop()


if __name__ == "__main__":
    main()
