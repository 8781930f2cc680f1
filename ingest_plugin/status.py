"""What ingest tells people: event names, and structlog set up for stderr (text for people, JSON lines for machines).

Keeps no state. Records' contents are never logged, only where they stand and what is wrong with them.
"""

import logging
import sys

import structlog

COMMITTED = "committed"
STARTED = "topic_started"
STOPPED = "topic_stopped"
WAITING = "topic_waiting"
SUPERSEDED = "files_superseded"
SCHEMA_CHANGED = "table_schema_changed"
TABLE_CREATED = "table_created"
BAD_RECORDS = "records_not_readable"
SKIPPED = "records_skipped"
PARTITION_BY_DIFFERS = "partition_by_differs_from_table"
TOPIC_ANEW = "another_log_of_this_name_is_read"
RECORDS_LOST = "records_deleted_before_they_were_read"
PAUSED = "topic_paused"
RESUMED = "topic_resumed"
TABLE_MOVED = "table_stands_elsewhere_than_left"
JOINED = "topic_found"
LEFT = "topic_left"
REFUSED = "topic_refused"
TOLD_OTHERWISE = "topic_settings_changed"
NOT_REGISTERED = "registered_topics_are_off"
FILE_COUNTS = "registration_not_followed_for_the_file_lists_the_topic"
NOT_LOOKED = "topics_not_looked_for"
FINISHED = "finished"


def configure(*, json: bool, level: int = logging.INFO) -> None:
    """Send log lines to stderr."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
