"""Logs and metrics: how log lines look, and every metric the server has, in one list.

Not here: what is logged or counted where. The registry is per process.
"""

import contextlib
import io
import logging
import sys
from dataclasses import dataclass
from typing import TextIO, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS = Counter(
    "frazil_requests_total",
    "Requests answered, by part of the server, method and status (0: the client went away).",
    ("door", "method", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "frazil_request_seconds",
    "Time from a request's head to the end of its answer.",
    ("door", "method"),
    buckets=_SECONDS,
    registry=REGISTRY,
)
COMMITS = Counter(
    "frazil_commits_total",
    "Table commits by outcome: applied, refused (certainly not applied), unknown.",
    ("outcome",),
    registry=REGISTRY,
)
COMMIT_SECONDS = Histogram(
    "frazil_commit_seconds",
    "Time of a table commit in the server, waiting for its turn included.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
COMMIT_RACES = Counter(
    "frazil_commit_races_lost_total",
    "Commit attempts that found the pointer moved and were tried again or given up.",
    registry=REGISTRY,
)
LOADS_IN_LINE = Gauge(
    "frazil_loads_in_line",
    "Loads that wait for their client's turn on a table with conflicting commits.",
    registry=REGISTRY,
)
DOCUMENT_CACHE_BYTES = Gauge(
    "frazil_document_cache_bytes",
    "Memory taken by table metadata kept between requests, estimated.",
    registry=REGISTRY,
)
DOCUMENT_LOADS = Counter(
    "frazil_document_loads_total",
    "Table metadata asked for, by where it was found: memory or store.",
    ("found",),
    registry=REGISTRY,
)
PLANS = Counter(
    "frazil_plans_total",
    "Scan plans by outcome: completed at once, submitted (to be asked for again), failed after that.",
    ("outcome",),
    registry=REGISTRY,
)
PLAN_SECONDS = Histogram(
    "frazil_plan_seconds",
    "Time to plan a scan, or a page of one, waiting for a turn included; by place: thread or process.",
    ("place",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
PLANNING_PROCESSES = Gauge(
    "frazil_planning_processes",
    "Planning processes that run now.",
    registry=REGISTRY,
)
METRICS_REPORTS = Counter(
    "frazil_metrics_reports_total",
    "Metrics reports of clients by outcome: kept, or dropped (too many at once, or their table was dropped).",
    ("outcome",),
    registry=REGISTRY,
)
JOBS = Gauge(
    "frazil_maintenance_jobs",
    "Maintenance jobs in the database by kind and state.",
    ("kind", "state"),
    registry=REGISTRY,
)
JOBS_WAITING_SECONDS = Gauge(
    "frazil_maintenance_queue_age_seconds",
    "How long the maintenance job of a kind that waits longest could have run already; 0 when none waits.",
    ("kind",),
    registry=REGISTRY,
)
JOB_SECONDS = Histogram(
    "frazil_maintenance_job_seconds",
    "Time of the last attempt of maintenance jobs that ended, by kind and how: done, failed or cancelled.",
    ("kind", "state"),
    buckets=(0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0),
    registry=REGISTRY,
)
JOBS_OVERDUE = Gauge(
    "frazil_maintenance_jobs_overdue",
    "Maintenance jobs of a kind that could have run for an hour already, or that failed and wait for another attempt.",
    ("kind",),
    registry=REGISTRY,
)
JOB_OUTCOMES = Counter(
    "frazil_maintenance_outcomes_total",
    "Maintenance jobs that ended, by kind and outcome: done, nothing, skipped, conflict, cancelled or failed.",
    ("kind", "outcome"),
    registry=REGISTRY,
)
JOB_FILES = Counter(
    "frazil_maintenance_files_total",
    "Files of maintenance jobs that ended, by kind and part: before (taken out of tables by a rewrite), after (written "
    "instead), deleted.",
    ("kind", "part"),
    registry=REGISTRY,
)
JOB_BYTES = Counter(
    "frazil_maintenance_bytes_total",
    "Bytes of the files that frazil_maintenance_files_total counts, where the job knows them.",
    ("kind", "part"),
    registry=REGISTRY,
)
JOB_THROTTLED_SECONDS = Counter(
    "frazil_maintenance_throttled_seconds_total",
    "Time that maintenance jobs which ended had waited, in all their threads, as they read or wrote too fast.",
    ("kind",),
    registry=REGISTRY,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as the reference page shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    description: str


METRICS: tuple[Metric, ...] = (
    Metric("frazil_requests_total", "counter", ("door", "method", "status"), "Requests answered."),
    Metric("frazil_request_seconds", "histogram", ("door", "method"), "Time per request."),
    Metric("frazil_commits_total", "counter", ("outcome",), "Table commits by outcome."),
    Metric("frazil_commit_seconds", "histogram", (), "Time per table commit."),
    Metric("frazil_commit_races_lost_total", "counter", (), "Commit attempts that lost the race."),
    Metric("frazil_loads_in_line", "gauge", (), "Loads that wait for their client's turn."),
    Metric("frazil_document_cache_bytes", "gauge", (), "Memory taken by cached table metadata."),
    Metric("frazil_document_loads_total", "counter", ("found",), "Table metadata loads by source."),
    Metric("frazil_plans_total", "counter", ("outcome",), "Scan plans by outcome."),
    Metric("frazil_plan_seconds", "histogram", ("place",), "Time per scan plan or page of one."),
    Metric("frazil_planning_processes", "gauge", (), "Planning processes that run now."),
    Metric("frazil_maintenance_jobs", "gauge", ("kind", "state"), "Maintenance jobs by kind and state."),
    Metric("frazil_maintenance_queue_age_seconds", "gauge", ("kind",), "Age of the longest waiting job."),
    Metric("frazil_maintenance_job_seconds", "histogram", ("kind", "state"), "Time per job that ended."),
    Metric("frazil_maintenance_jobs_overdue", "gauge", ("kind",), "Jobs that wait for an hour, or failed."),
    Metric(
        "frazil_maintenance_outcomes_total", "counter", ("kind", "outcome"), "Jobs that ended, by outcome."
    ),
    Metric("frazil_maintenance_files_total", "counter", ("kind", "part"), "Files before, after and deleted."),
    Metric("frazil_maintenance_bytes_total", "counter", ("kind", "part"), "Bytes before, after and deleted."),
    Metric(
        "frazil_maintenance_throttled_seconds_total", "counter", ("kind",), "Time that jobs were held back."
    ),
    Metric("frazil_metrics_reports_total", "counter", ("outcome",), "Clients' metrics reports by outcome."),
)
"""Every metric by its public name; a test holds this list and the registry together."""


class _StandardError(io.TextIOBase):
    """Standard error for log lines. On a full disk or a closed pipe a line is lost, never the work that logged it."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def configure_logging(level: str, form: str) -> None:
    """Send log lines of this process to standard error.

    `form` is `json`, `text`, or `auto`: text on a terminal, else json.
    """
    number = getattr(logging, level.upper())
    stream = cast("TextIO", _StandardError())
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The default prints every local variable, secrets included, and takes seconds to do so.
            exception_formatter=structlog.dev.plain_traceback,
        )
        if as_text
        else structlog.processors.JSONRenderer()
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if not as_text:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard library: the same lines, warnings and worse only.
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processor=renderer)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.WARNING))
