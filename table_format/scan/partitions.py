"""Partition tuples as dictionary keys, and which specs count as unpartitioned.

Two files are in the same partition when spec and key are equal.
"""

import math
import struct
from collections.abc import Hashable

from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Partition, PartitionValue


def partition_key(partition: Partition) -> tuple[Hashable, ...]:
    """The tuple with floats replaced by their bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    # Asked for every file of a table, and floats are rare among partition values.
    return tuple(_key(value) for value in partition) if float in map(type, partition) else partition


def _key(value: PartitionValue) -> Hashable:
    if not isinstance(value, float):
        return value
    return b"nan" if math.isnan(value) else struct.pack(">d", value)


def is_unpartitioned(spec: JsonObject) -> bool:
    """Whether files of this spec belong to the whole table: no fields, or void transforms only."""
    return all(field["transform"] == "void" for field in spec["fields"])
