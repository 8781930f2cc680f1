"""Spark's `rewrite_data_files` on one table of a REST catalog: run by Spark's own Python, prints seconds and bytes.

Arguments: catalog URI, table, target size in bytes, folder of the Iceberg jars. Run by `bench_compaction`.
"""

import json
import os
import sys
import time
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and those of its children that have ended; nought of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> int:
    """The most memory that a process had resident, in MiB; nought of one that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")), 0)


def main() -> None:
    """Warm Spark up on another table, then rewrite the table once."""
    from pyspark.sql import SparkSession  # type: ignore[import-not-found]  # noqa: PLC0415 - Spark's own Python has it

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
    java = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()[0])
    start, before = time.perf_counter(), cpu_seconds(java)
    sizes = f"'target-file-size-bytes', '{target}', 'min-input-files', '2', "
    told = spark.sql(call.format(table, sizes + every)).collect()[0].asDict()
    seconds, cpu = time.perf_counter() - start, cpu_seconds(java) - before
    told |= {"seconds": seconds, "cpu": cpu, "peak_mb": peak_mb(java)}
    print("RESULT " + json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
