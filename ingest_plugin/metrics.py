"""Every metric of ingest, in one list; a registry of its own, since ingest is a process of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

RECORDS = Counter("frazil_ingest_records_total", "Records read from a topic.", ("topic",), registry=REGISTRY)
BYTES = Counter(
    "frazil_ingest_bytes_total", "Bytes of the values of records read.", ("topic",), registry=REGISTRY
)
DEAD_LETTERS = Counter(
    "frazil_ingest_dead_letters_total",
    "Records that could not become rows, and were committed as dead letters.",
    ("topic",),
    registry=REGISTRY,
)
FILES = Counter(
    "frazil_ingest_files_total", "Data and delete files committed.", ("topic",), registry=REGISTRY
)
COMMIT_SECONDS = Histogram(
    "frazil_ingest_commit_seconds",
    "Time from closing a commit's files to the catalog's answer.",
    ("topic",),
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    registry=REGISTRY,
)
LAG = Gauge(
    "frazil_ingest_lag_records",
    "Offsets between what has been read of this process's partitions and their ends.",
    ("topic",),
    registry=REGISTRY,
)
LAG_SECONDS = Gauge(
    "frazil_ingest_lag_seconds",
    "Age of the moment up to which the table is complete; 0 when all has been read and committed.",
    ("topic",),
    registry=REGISTRY,
)
RUNNING = Gauge(
    "frazil_ingest_topic_running",
    "Whether a topic is read now: 0 when it is stopped, paused or waits for something that is away.",
    ("topic",),
    registry=REGISTRY,
)

METRICS = (RECORDS, BYTES, DEAD_LETTERS, FILES, COMMIT_SECONDS, LAG, LAG_SECONDS, RUNNING)
