"""Logs and metrics of every process: structlog to standard error, one Prometheus registry with all names.

Standard output belongs to the program's answers (the `ready` line, JSON), so logs never go there.
"""

import logging
import sys
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

REQUESTS = Counter(
    "frazil_http_requests", "Requests answered.", ["door", "method", "status"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "frazil_http_request_seconds",
    "Time from the first byte of a request to the last of its answer.",
    ["door", "method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)


def configure_logging(level: str, log_format: str) -> None:
    """Send structlog and the standard library's logging to standard error, as text or JSON lines."""
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        cache_logger_on_first_use=True,
    )
    renderer: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(threshold)
    # Libraries that tell about every step of theirs are heard only when something is wrong.
    for chatty in ("uvicorn", "alembic", "apscheduler", "urllib3"):
        logging.getLogger(chatty).setLevel(max(threshold, logging.WARNING))
