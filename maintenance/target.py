"""The table a job is about: loaded by name, and checked to be the very table the job was made for."""

from maintenance import table_properties
from maintenance.ports import Job, JobContext
from maintenance.report import Report, skipped
from table_format.catalog import LoadedTable
from table_format.errors import NoSuchTable


def load_target(ctx: JobContext, job: Job) -> LoadedTable | Report:
    """The table as it is now, or a report that says why there is nothing to work on.

    A name may have been given to another table since the job was enqueued; only the UUID tells.
    """
    if job.ident is None:
        return skipped("the job names no table")
    try:
        table = ctx.catalog.load(job.ident)
    except NoSuchTable:
        return skipped(f"table {job.ident} does not exist any more")
    if not is_target(table, job):
        return skipped(f"{job.ident} is another table now (UUID {table.metadata.uuid}, not {job.table_uuid})")
    return table


def is_target(table: LoadedTable, job: Job) -> bool:
    """Whether the loaded table is the job's."""
    return table.metadata.uuid is None or table.metadata.uuid.lower() == job.table_uuid.lower()


def gc_disabled(table: LoadedTable) -> bool:
    """Whether the table says that its files are not its own to delete."""
    return table_properties.gc_disabled(table.metadata.properties)
