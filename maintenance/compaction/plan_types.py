"""The values of a compaction plan and their JSON form (what is printed, stored in the job's row, and asserted)."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from maintenance.compaction.layout import Strategy
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Partition, PartitionValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One input, as the manifest knows it."""

    path: str
    size: int
    records: int
    sequence_number: int
    delete_files: int = 0
    """Delete files that apply to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Inputs that become one output under the same spec and partition."""

    spec_id: int
    partition: Partition
    below_bytes: int
    target_bytes: int
    reason: str
    inputs: tuple[PlannedFile, ...]
    strategy: Strategy = Strategy.BINPACK
    order_id: int | None = None
    """The sort order of the table by which the output will be sorted."""
    sort_fields: tuple[JsonObject, ...] | None = None
    """What rows are sorted by, where a policy says it; None: the table's default sort order."""
    rewritten_because: str | None = None
    """Why its rows are decoded and encoded; None when its row groups may be copied as they are."""

    @property
    def size(self) -> int:
        """Input bytes."""
        return sum(file.size for file in self.inputs)

    @property
    def records(self) -> int:
        """Input rows; the output must have as many, less those that deletes take away."""
        return sum(file.records for file in self.inputs)

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "spec-id": self.spec_id,
            "partition": [encode_value(value) for value in self.partition],
            "below-bytes": self.below_bytes,
            "target-bytes": self.target_bytes,
            "reason": self.reason,
            "strategy": self.strategy.value,
            "sort-order-id": self.order_id,
            "rewritten-because": self.rewritten_because,
            "sort-fields": None if self.sort_fields is None else list(self.sort_fields),
            "inputs": [[f.path, f.size, f.records, f.sequence_number, f.delete_files] for f in self.inputs],
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "PlannedGroup":
        """The group that `to_json` wrote."""
        return cls(
            spec_id=document["spec-id"],
            partition=tuple(decode_value(value) for value in document["partition"]),
            below_bytes=document["below-bytes"],
            target_bytes=document["target-bytes"],
            reason=document["reason"],
            strategy=Strategy(document.get("strategy", Strategy.BINPACK)),
            order_id=document.get("sort-order-id"),
            rewritten_because=document.get("rewritten-because"),
            sort_fields=None if document.get("sort-fields") is None else tuple(document["sort-fields"]),
            inputs=tuple(
                PlannedFile(
                    path=path, size=size, records=records, sequence_number=sequence, delete_files=deletes
                )
                for path, size, records, sequence, deletes in document["inputs"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDeletes:
    """Position delete files of one partition that are stored anew, without their data files."""

    spec_id: int
    partition: Partition
    inputs: tuple[PlannedFile, ...]
    data_files: tuple[str, ...] = ()
    """The data files that get a vector each; none: the delete files are merged into one."""

    @property
    def records(self) -> int:
        """Deleted rows in all inputs."""
        return sum(file.records for file in self.inputs)

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "spec-id": self.spec_id,
            "partition": [encode_value(value) for value in self.partition],
            "inputs": [[f.path, f.size, f.records, f.sequence_number] for f in self.inputs],
            "data-files": list(self.data_files),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "PlannedDeletes":
        """The plan that `to_json` wrote."""
        return cls(
            spec_id=document["spec-id"],
            partition=tuple(decode_value(value) for value in document["partition"]),
            inputs=tuple(
                PlannedFile(path=path, size=size, records=records, sequence_number=sequence)
                for path, size, records, sequence in document["inputs"]
            ),
            data_files=tuple(document["data-files"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What one run will rewrite, on which snapshot, and what it leaves alone."""

    snapshot_id: int
    sequence_number: int
    groups: tuple[PlannedGroup, ...]
    remaining_groups: int
    """Groups that are worth rewriting too, but exceed what one run takes."""
    data_files: int
    left_alone: Mapping[str, int] = field(default_factory=dict)
    """Number of files per reason for not touching them."""
    deletes: tuple[PlannedDeletes, ...] = ()
    """Rewrites of deletes alone."""

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "groups": [group.to_json() for group in self.groups],
            "remaining-groups": self.remaining_groups,
            "data-files": self.data_files,
            "left-alone": dict(self.left_alone),
            "deletes": [plan.to_json() for plan in self.deletes],
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "CompactionPlan":
        """The plan that `to_json` wrote."""
        return cls(
            snapshot_id=document["snapshot-id"],
            sequence_number=document["sequence-number"],
            groups=tuple(PlannedGroup.from_json(group) for group in document["groups"]),
            remaining_groups=document["remaining-groups"],
            data_files=document["data-files"],
            left_alone=dict(document["left-alone"]),
            deletes=tuple(PlannedDeletes.from_json(plan) for plan in document.get("deletes", [])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No group is worth rewriting, and why."""

    reason: str
    data_files: int = 0
    left_alone: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "nothing": self.reason,
            "data-files": self.data_files,
            "left-alone": dict(self.left_alone),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> "Nothing":
        """What `to_json` wrote."""
        return cls(
            reason=document["nothing"],
            data_files=document["data-files"],
            left_alone=dict(document["left-alone"]),
        )


def encode_value(value: PartitionValue) -> object:
    """A partition value as JSON; what JSON has no exact form for becomes {"type": text}."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case bytes():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case Decimal():
            return {"decimal": str(value)}
        case UUID():
            return {"uuid": str(value)}


def decode_value(value: object) -> PartitionValue:
    """The value that `encode_value` wrote.

    Raises:
        Invalid: it did not write this.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case {"float": str(text)}:
            return float.fromhex(text)
        case {"bytes": str(text)}:
            return base64.b64decode(text)
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"uuid": str(text)}:
            return UUID(text)
        case _:
            raise Invalid(f"{value!r} is not a stored partition value")
