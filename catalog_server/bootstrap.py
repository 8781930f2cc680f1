"""Builds the server's parts and puts them together; the one place that knows them all.

`build` opens nothing; `Platform.start` does, and finds out what is wrong with the surroundings.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from catalog_server.services.all_tables import AllTables
from catalog_server.services.arns import Arns
from catalog_server.services.backlogs import BacklogService
from catalog_server.services.buckets import BucketService
from catalog_server.services.commits import CommitLimits, CommitService
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.documents import DocumentCache, FileBounds
from catalog_server.services.drops import DropService
from catalog_server.services.figures import FigureService
from catalog_server.services.idempotency import IdempotencyService
from catalog_server.services.ingest_topics import IngestTopicService
from catalog_server.services.job_context import DatabaseJobContext, DatabaseUnreferencedLog
from catalog_server.services.job_figures import JobFigures
from catalog_server.services.job_pace import PaceLimits
from catalog_server.services.jobs import JobLimits, JobService
from catalog_server.services.locations import check_text, three_slashes
from catalog_server.services.metadata_files import MetadataFiles
from catalog_server.services.namespaces import NamespaceService
from catalog_server.services.noncurrent import NoncurrentService
from catalog_server.services.plan_places import PlanPlaces
from catalog_server.services.plan_pool import PlanPool, PoolLimits
from catalog_server.services.plan_work import Planner
from catalog_server.services.plans import PlanLimits, PlanService
from catalog_server.services.policies import PolicyService
from catalog_server.services.port import InProcessCatalog
from catalog_server.services.principals import SYSTEM
from catalog_server.services.reports import ReportLimits, ReportService
from catalog_server.services.resource_settings import ResourceSettingsService
from catalog_server.services.statistics import StatisticsService
from catalog_server.services.storage import Installation, Storage, takes_properties
from catalog_server.services.stores import Stores
from catalog_server.services.table_entries import TableEntryService
from catalog_server.services.table_maintenance import TableMaintenanceService
from catalog_server.services.tables import TableService
from catalog_server.services.tags import TagService
from catalog_server.services.turns import Turns
from catalog_server.services.views import ViewService
from catalog_server.settings import Settings, SettingsError, StartError
from catalog_server.store.engine import Database, choose
from maintenance.executors.choice import executor_of
from maintenance.executors.inline import InlineExecutor
from maintenance.executors.port import Executor
from maintenance.ports import Job, JobSettings
from table_format.clock import Clock, Ids, SystemClock, SystemIds
from table_format.errors import AlreadyExists, Invalid, NoSuchWarehouse, Unsupported
from table_format.io.store import ObjectStore

_log = structlog.get_logger(__name__)
_STORAGE_THREADS = 32
_MINUTE_MS = 60_000
_DAY_MS = 86_400_000


class DataDirInUse(StartError):
    """Another server runs on the data directory."""


class DataDirNotWritable(StartError):
    """The data directory can not be made or written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Everything the server is made of."""

    settings: Settings
    clock: Clock
    ids: Ids
    database: Database
    storage: Storage
    stores: Stores
    threads: ThreadPoolExecutor
    documents: DocumentCache
    buckets: BucketService
    arns: Arns
    tags: TagService
    resource_settings: ResourceSettingsService
    figures: FigureService
    namespaces: NamespaceService
    tables: TableService
    drops: DropService
    statistics: StatisticsService
    all_tables: AllTables
    table_entries: TableEntryService
    table_maintenance: TableMaintenanceService
    views: ViewService
    plans: PlanService
    commits: CommitService
    turns: Turns
    policies: PolicyService
    jobs: JobService
    noncurrent: NoncurrentService
    ingest_topics: IngestTopicService
    job_figures: JobFigures
    backlogs: BacklogService
    idempotency: IdempotencyService
    reports: ReportService
    executor: Executor

    async def start(self) -> None:
        """Open the database, bring it up to date, make the default bucket.

        Raises:
            StartError: one line that says what is wrong.
        """
        check_writable(self.settings.server.data_dir)
        await self.database.start()
        await self._make_default_bucket()

    async def warn_of_moved(self) -> None:
        """Log a warning for each bucket whose directory is not where the database says."""
        for bucket in await self.buckets.without_directory(self._default_location()):
            _log.warning(
                "bucket-directory-missing",
                bucket=bucket.name,
                location=bucket.location,
                detail="its tables can not be read and new ones are written there all the same: "
                "bring the files back to that path",
            )

    async def migrate(self) -> str | None:
        """Open the database and bring it up to date, nothing else; the revision it had, None when it is new.

        Raises:
            StartError: one line that says what is wrong.
        """
        if not self.settings.database.url.get_secret_value():
            check_writable(self.settings.server.data_dir)
        return await self.database.start()

    async def join(self) -> None:
        """Open the database of a server that is there already, beside it: no bucket is made.

        Raises:
            StartError: one line that says what is wrong.
        """
        location = self.settings.database_location
        if isinstance(location, Path) and not location.exists():
            raise StartError(f"no database at {location}: `frazil serve` makes one; see --data-dir")
        await self.database.start()

    async def close(self) -> None:
        """Finish the commits in flight and close everything."""
        await asyncio.to_thread(self.executor.close)
        await self.plans.close()
        await self.commits.drain()
        await self.views.drain()
        await self.reports.close()
        await self.database.close()
        self.threads.shutdown(wait=True)

    async def ready(self) -> None:
        """Whether requests can be served.

        Raises:
            Unavailable: the database does not answer.
            NoSuchWarehouse: the default bucket is missing.
        """
        await self.buckets.get(SYSTEM, self.buckets.default_name)

    def catalog(self, bucket: str) -> InProcessCatalog:
        """The catalog for jobs on one bucket; to be called on the event loop, used off it."""
        return InProcessCatalog(
            loop=asyncio.get_running_loop(),
            bucket=bucket,
            namespaces=self.namespaces,
            tables=self.tables,
            commits=self.commits,
        )

    def job_context(self, job: Job) -> DatabaseJobContext:
        """The surroundings of a claimed job; to be called on the event loop, used off it."""
        return DatabaseJobContext(
            job=job,
            catalog=self.catalog(job.bucket),
            clock=self.clock,
            ids=self.ids,
            settings=JobSettings(allow_unsafe=self.settings.maintenance.allow_unsafe),
            unreferenced=DatabaseUnreferencedLog(self.database, self.clock),
            stores=self.stores,
            database=self.database,
            policies=self.policies,
            executor=self.executor,
        )

    async def _make_default_bucket(self) -> None:
        name = self.settings.storage.default_bucket
        try:
            await self.buckets.get(SYSTEM, name)
        except NoSuchWarehouse:
            location = self._default_location()
            try:
                await self._check_place(three_slashes(location))
                await self.buckets.create(SYSTEM, name, location=location)
            except Unsupported as error:
                raise StartError(f"setting storage.default_bucket_location: {error.message}") from None
            except Invalid as error:
                advice = "choose another data directory or set storage.default_bucket_location"
                if self.settings.storage.default_bucket_location:
                    advice = "see storage.default_bucket_location and storage.properties"
                raise StartError(f"the default bucket can not be made: {error.message}; {advice}") from None
            except AlreadyExists as error:
                # Another process that starts at the same time may have made it: then it is there now.
                await self._must_exist(name, error)

    async def _check_place(self, location: str) -> None:
        """See that the default bucket can be where it shall be, before anything refers to that place."""
        check_text(location)
        if takes_properties(location):
            (await self.storage.probe(location, {}, None)).require()
        else:
            self.storage.open(location, {}, None)

    def _default_location(self) -> str:
        given = self.settings.storage.default_bucket_location
        return given or _uri(self.settings.server.data_dir / "warehouse")

    async def _must_exist(self, name: str, error: AlreadyExists) -> None:
        try:
            await self.buckets.get(SYSTEM, name)
        except NoSuchWarehouse:
            raise StartError(f"the default bucket can not be made: {error.message}") from None


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    store_for: Callable[[str], ObjectStore] | None = None,
) -> Platform:
    """Put a platform together; tests give their own clock, ids and stores.

    Raises:
        SettingsError: the database is of a kind that is not supported, or a property of the object stores is wrong.
    """
    clock, ids = clock or SystemClock(), ids or SystemIds()
    limits = settings.limits
    database = choose(settings)
    threads = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")
    storage = _storage(settings, database, threads, ids)
    stores = Stores(store_for) if store_for else Stores(storage.store_for, storage.properties_of)
    documents = _documents(settings, stores, threads)
    commit_limits = _commit_limits(settings)
    turns = Turns(clock, longest_wait_seconds=limits.turn_wait_seconds)
    commits = CommitService(database, documents, stores, (clock, ids), threads, commit_limits, turns)
    files = MetadataFiles(stores, ids, threads, max_bytes=limits.max_metadata_bytes)
    policies = PolicyService(database, documents, clock, allow_unsafe=settings.maintenance.allow_unsafe)
    places = _plan_places(settings, stores, threads, clock)
    kept_ms = int(settings.drops.keep_days * _DAY_MS)
    tables = TableService(database, documents, commits, (clock, ids), kept_ms=kept_ms)
    return Platform(
        settings=settings,
        clock=clock,
        ids=ids,
        database=database,
        storage=storage,
        stores=stores,
        threads=threads,
        documents=documents,
        buckets=BucketService(
            database,
            clock,
            commit_limits.content,
            storage,
            default_name=settings.storage.default_bucket,
            root=settings.storage.buckets_location or _uri(settings.server.data_dir / "buckets"),
        ),
        arns=Arns(region=settings.s3tables.region, account_id=settings.s3tables.account_id),
        tags=TagService(database),
        resource_settings=ResourceSettingsService(database, clock),
        figures=FigureService(database, documents, clock),
        namespaces=NamespaceService(database, clock, commit_limits.content),
        tables=tables,
        statistics=StatisticsService(stores, threads, clock),
        drops=DropService(database, documents, clock),
        all_tables=AllTables(database, clock),
        table_entries=TableEntryService(database, documents, commits, tables, (clock, ids)),
        table_maintenance=TableMaintenanceService(database, documents),
        views=ViewService(database, documents, commits, files, (clock, ids), commit_limits),
        plans=PlanService(database, tables, places, threads, (clock, ids), _plan_limits(settings)),
        commits=commits,
        turns=turns,
        policies=policies,
        jobs=JobService(database, (clock, ids), policies, _job_limits(settings)),
        noncurrent=NoncurrentService(database, clock, policies),
        ingest_topics=IngestTopicService(database, clock),
        job_figures=JobFigures(database, clock),
        backlogs=BacklogService(database, documents, policies, clock),
        idempotency=IdempotencyService(database, clock, lifetime_ms=limits.idempotency_minutes * _MINUTE_MS),
        reports=ReportService(database, tables, clock, _report_limits(settings)),
        # Stores that were given are in this process, and reached from no other.
        executor=InlineExecutor() if store_for else _executor(settings),
    )


def _executor(settings: Settings) -> Executor:
    wanted = settings.maintenance
    return executor_of(
        wanted.executor,
        side_by_side=wanted.group_processes,
        memory_mb=wanted.group_memory_mb,
        most_memory_mb=wanted.memory_mb,
        ray_address=wanted.ray_address,
    )


def _storage(settings: Settings, database: Database, threads: ThreadPoolExecutor, ids: Ids) -> Storage:
    installation = Installation(settings.storage.properties, settings.storage.credentials)
    try:
        installation.check()
    except Invalid as error:
        raise SettingsError(error.message) from None
    return Storage(database=database, installation=installation, threads=threads, ids=ids)


def _documents(settings: Settings, stores: Stores, threads: ThreadPoolExecutor) -> DocumentCache:
    limits = settings.limits
    return DocumentCache(
        stores,
        threads,
        max_bytes=limits.document_cache_bytes,
        max_metadata_bytes=limits.max_metadata_bytes,
        foreign=FileBounds(max_bytes=limits.max_register_bytes, max_values=limits.max_register_values),
    )


def _commit_limits(settings: Settings) -> CommitLimits:
    limits = settings.limits
    return CommitLimits(
        attempts=limits.commit_attempts,
        queue=limits.commit_queue,
        job_attempts=settings.maintenance.max_attempts,
        content=ContentLimits(
            columns=limits.max_columns, properties=limits.max_properties, text_bytes=limits.max_text_bytes
        ),
        metadata_bytes=limits.max_metadata_bytes,
    )


def _job_limits(settings: Settings) -> JobLimits:
    wanted = settings.maintenance
    return JobLimits(
        max_attempts=wanted.max_attempts,
        lease_ms=round(wanted.lease_seconds * 1000),
        kept_ms=wanted.history_days * _DAY_MS,
        total=wanted.total_concurrency or None,
        per_bucket=wanted.bucket_concurrency or None,
        pace=PaceLimits.of(wanted),
    )


def _plan_places(settings: Settings, stores: Stores, threads: ThreadPoolExecutor, clock: Clock) -> PlanPlaces:
    planning = settings.planning
    pool = None
    if planning.processes:
        limits = PoolLimits(
            processes=planning.processes,
            queue=planning.queue,
            idle_seconds=planning.idle_seconds,
            timeout_seconds=planning.timeout_seconds,
        )
        pool = PlanPool(limits), stores.properties_for
    return PlanPlaces(
        Planner(stores.store_for),
        threads,
        pool,
        clock,
        thread_files=planning.thread_files,
        queue=planning.queue,
    )


def _plan_limits(settings: Settings) -> PlanLimits:
    planning = settings.planning
    return PlanLimits(
        page_files=planning.page_files,
        page_bytes=planning.page_mb << 20,
        wait_seconds=planning.wait_seconds,
        lifetime_ms=int(planning.lifetime_minutes * _MINUTE_MS),
    )


def _report_limits(settings: Settings) -> ReportLimits:
    return ReportLimits(per_table=settings.reports.per_table, kept_ms=settings.reports.days * _DAY_MS)


def check_writable(data_dir: Path) -> None:
    """Make the data directory, and see that files can be made in it.

    Raises:
        DataDirNotWritable: they can not.
    """
    probe = data_dir / f".probe-{os.getpid()}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DataDirNotWritable(f"data directory {data_dir} is not writable: {error.strerror}") from None


@contextmanager
def serve_lock(settings: Settings) -> Iterator[None]:
    """Hold the data directory against a second server; the system lets go when the process ends, however.

    Raises:
        DataDirInUse: another process holds it.
        DataDirNotWritable: the lock can not be made.
    """
    check_writable(settings.server.data_dir)
    path = settings.server.data_dir / "serve.lock"
    with path.open("a+", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.read(20).strip() or "unknown"
            raise DataDirInUse(
                f"data directory {settings.server.data_dir} is in use by another frazil server (pid {holder}): "
                "stop that one, or choose another with --data-dir"
            ) from None
        handle.truncate(0)  # the number is only told to people; the lock is what counts
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


def _uri(path: Path) -> str:
    return f"file://{os.path.abspath(path)}"
