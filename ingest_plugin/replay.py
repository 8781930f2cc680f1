"""Dead letters tried again: those that fit by now become rows, and leave their table in the same commit.

Rows in and letters out are one transaction, made only on the version of the letters' table that was read: whoever
replays beside us, or however often, each letter becomes a row once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ingest_plugin import offsets, tables
from ingest_plugin.bind.topic import TopicBinder
from ingest_plugin.decode.values import DataError, Decoder
from ingest_plugin.keys import ConfigError
from ingest_plugin.letter import Letter, letter_of
from ingest_plugin.together import CommitTogether
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.write.buffer import RowBuffer, StoreFor
from table_format.catalog import LoadedTable, TableCatalog, TableChange, TransactionalCatalog
from table_format.clock import Clock, Ids
from table_format.commit.append import MERGE_FROM_MANIFESTS, append
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.commit.rewrite import ancestor_summaries
from table_format.commit.row_delta import row_delta
from table_format.commit.summary import carried_ingest_keys
from table_format.errors import CommitFailed
from table_format.manifest.entries import DataFile
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from table_format.write.deletes import EqualityDeleteWriter

KEY = ("topic", "partition", "offset")
ATTEMPTS = 5


class _Moved(Exception):
    """The letters' table is not the version that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How many letters became rows, how many still cannot, and why."""

    rows: int = 0
    left: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Replay:
    """Replays one topic's dead letters, `limit` at most in one go."""

    topic: TopicSettings
    decoder: Decoder
    catalog: TableCatalog
    store_for: StoreFor
    clock: Clock
    ids: Ids
    limit: int

    def run(self) -> Replayed:
        """Try the letters again.

        Raises:
            ConfigError: letters of this topic, or of this catalog, cannot be replayed.
            CommitFailed: others kept changing the letters' table.
            CommitStateUnknown: it may have happened; what did is seen by trying again.
        """
        catalog = self.catalog
        if self.topic.keyed:
            raise ConfigError(
                f"topic {self.topic.topic} keeps the last row of each key, and dead letters are older than what came"
                " since: produce the corrected records to the topic instead"
            )
        if self.topic.dead_letter_topic:
            raise ConfigError(
                f"dead letters of topic {self.topic.topic} are in Kafka topic {self.topic.dead_letter_topic}: produce"
                " them to their topic again once they are corrected"
            )
        if not isinstance(catalog, TransactionalCatalog) or not catalog.commits_together():
            raise ConfigError("the catalog does not commit to two tables at once: rows could come in twice")
        for _ in range(ATTEMPTS):
            table = tables.find(catalog, self.topic.dead_letters)
            if table is None:
                return Replayed()
            try:
                return self._once(catalog, table)
            except _Moved:
                continue
        raise CommitFailed(f"{self.topic.dead_letters} kept changing; try again")

    def _once(self, catalog: TransactionalCatalog, table: LoadedTable) -> Replayed:
        letters = list(self._letters(table))
        binder = TopicBinder(settings=self.topic, catalog=catalog, clock=self.clock, ids=self.ids)
        binder.open()
        rows = RowBuffer(store_for=self.store_for, ids=self.ids, target_bytes=self.topic.target_bytes)
        errors = self._bind(binder, rows, letters)
        good = [letter for place, letter in enumerate(letters) if place not in errors]
        result = Replayed(
            rows=rows.rows,
            left=len(errors),
            reasons=dict(Counter(error.reason for error in errors.values()).most_common(5)),
        )
        if good:
            self._commit(catalog, table, binder, rows.close_files(), self._deletes(table, good))
        return result

    def _letters(self, table: LoadedTable) -> Iterator[Letter]:
        """The topic's letters in the order of the log, copies left out."""
        store = self.store_for(table.metadata.location, table.config)
        found: dict[tuple[int, int], Letter] = {}
        for task in snapshot_files(store, table.metadata).tasks:
            for batch in read_task(store, task, table.metadata):
                for row in batch.to_pylist():
                    if row["topic"] == self.topic.topic and len(found) < self.limit:
                        found.setdefault((row["partition"], row["offset"]), letter_of(row))
        return iter([found[place] for place in sorted(found)])

    def _bind(self, binder: TopicBinder, rows: RowBuffer, letters: Sequence[Letter]) -> dict[int, DataError]:
        """Write the rows of what can be read now; the errors of the rest."""
        decoded = self.decoder.decode(letters)
        errors = dict(decoded.errors)
        for group in decoded.groups:
            bound = binder.bind(group, letters)
            errors.update(bound.errors)
            if bound.batch is not None and binder.table is not None:
                rows.write(binder.table, binder.conformed(bound.batch))
        return errors

    def _deletes(self, table: LoadedTable, letters: Sequence[Letter]) -> list[DataFile]:
        schema = table.metadata.schema()
        writer = EqualityDeleteWriter(
            store=self.store_for(table.metadata.location, table.config),
            metadata=table.metadata,
            ids=self.ids,
            target_bytes=self.topic.target_bytes,
            key_ids=tables.key_ids(schema, KEY),
        )
        keys: list[dict[str, Any]] = [
            {"topic": letter.topic(), "partition": letter.partition(), "offset": letter.offset()}
            for letter in letters
        ]
        writer.write(pa.RecordBatch.from_pylist(keys, schema=writer.arrow_schema))
        return writer.flush()

    def _commit(
        self,
        catalog: TransactionalCatalog,
        letters: LoadedTable,
        binder: TopicBinder,
        files: Sequence[DataFile],
        deletes: Sequence[DataFile],
    ) -> None:
        home = binder.ensure_table()
        if home is None:
            raise ConfigError(f"table {self.topic.ident} does not exist, and no letter tells its columns")
        store = self.store_for(home.metadata.location, home.config)
        commit_id = self.ids.uuid()

        def beside() -> TableChange:
            now = tables.find(catalog, letters.ident)
            if now is None or now.metadata_location != letters.metadata_location:
                raise _Moved
            change = row_delta(
                self.store_for(now.metadata.location, now.config),
                now,
                [],
                deletes,
                summary={offsets.COMMIT_ID: commit_id},
                clock=self.clock,
                ids=self.ids,
                merge_min=MERGE_FROM_MANIFESTS,
            )
            return TableChange(ident=letters.ident, requirements=change.requirements, updates=change.updates)

        def build(table: LoadedTable) -> Change | None:
            if table.metadata.uuid != home.metadata.uuid:
                raise ConfigError(f"table {table.ident} was dropped and made anew meanwhile")
            # Where ingest stands is carried on, as maintenance does.
            keys = carried_ingest_keys(ancestor_summaries(table.metadata))
            return append(
                store,
                table,
                files,
                summary={**keys, offsets.COMMIT_ID: commit_id},
                clock=self.clock,
                ids=self.ids,
                merge_min=MERGE_FROM_MANIFESTS,
            )

        try:
            commit_with_retry(
                CommitTogether(catalog, beside),
                self.topic.ident,
                build,
                store=store,
                clock=self.clock,
                ids=self.ids,
            )
        except _Moved:
            # An attempt before this one may have been applied without an answer.
            if not offsets.landed(catalog.load(self.topic.ident).metadata, commit_id):
                raise
