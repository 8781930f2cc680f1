"""Spark as a process that answers SQL: a line of JSON in, a line of JSON out. Runs on Spark's own Python packages.

{"sql": text} is answered by {"rows": [[...]]} or {"error": text}. Its last argument names the place for its files.
"""

import glob
import json
import os
import sys


def session(uri: str, jars: str, place: str):
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings = {
        "spark.driver.extraClassPath": ":".join(sorted(glob.glob(os.path.join(jars, "*.jar")))),
        "spark.driver.memory": "1500m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "rest",
        "spark.sql.catalog.ice.uri": uri,
        "spark.sql.catalog.ice.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "spark.sql.catalog.ice.cache-enabled": "false",  # others write as well
        "spark.sql.defaultCatalog": "ice",
        "spark.local.dir": place,
        "spark.sql.warehouse.dir": os.path.join(place, "spark-warehouse"),
    }
    builder = SparkSession.builder.appName("oracle").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def main() -> None:
    uri, jars, place = sys.argv[1:]
    # Libraries may print; only answers belong on the stream that is read.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = session(uri, jars, place)
    for line in sys.stdin:
        try:
            rows = [list(row) for row in spark.sql(json.loads(line)["sql"]).collect()]
            answer = {"rows": rows}
        except Exception as error:  # noqa: BLE001 - whatever it is, the tests judge it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
