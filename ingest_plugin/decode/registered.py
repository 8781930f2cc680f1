"""`by_schema_id` and `by_latest_schema`: values or keys whose schema a registry has; Avro, Protobuf and JSON Schema.

A record must be read to its last byte: a shorter or longer body means that it was written with another schema.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from ingest_plugin.decode.formats import BAD_BYTES, Format, Reader, Unmappable
from ingest_plugin.decode.framing import Framed, Part, SchemaId, from_headers, from_prefix
from ingest_plugin.decode.registry import RegisteredSchema, SchemaRegistry
from ingest_plugin.decode.values import DataError, Decoded, Group, Row, invalid, unmappable
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import PartSettings, SchemaIdPlace, SubjectStrategy

# What a document that is no schema makes of itself, here and in the libraries.
_BAD_SCHEMA = (
    Unmappable,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    ArithmeticError,
)
_Found: TypeAlias = tuple[Hashable, int, Reader, Row]
Compile: TypeAlias = Callable[[RegisteredSchema], Format]


class _Formats:
    """Compiled schemas, and those that cannot be."""

    def __init__(self, compile_schema: Compile) -> None:
        self._compile = compile_schema
        self._known: dict[Hashable, Format | DataError] = {}

    def of(self, key: Hashable, schema: RegisteredSchema) -> Format | DataError:
        """The schema compiled; the same answer for the same key."""
        known = self._known.get(key)
        if known is None:
            try:
                known = self._compile(schema)
            except _BAD_SCHEMA as error:
                known = unmappable(f"schema {key} cannot become a table: {error_text(error)}")
            self._known[key] = known
        return known

    def get(self, key: Hashable) -> Format | DataError | None:
        """What is known already."""
        return self._known.get(key)


class SchemaIdDecoder:
    """`by_schema_id`: one group per schema and record type, in order of first appearance."""

    def __init__(
        self,
        registry: SchemaRegistry,
        part: Part = Part.VALUE,
        place: SchemaIdPlace = SchemaIdPlace.PREFIX,
        compile_schema: Compile | None = None,
    ) -> None:
        self._registry = registry
        self._part = part
        self._in_headers = place is SchemaIdPlace.HEADERS
        self._formats = _Formats(compile_schema or compile_registered)

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows by schema, and data errors."""
        payload, in_headers = self._part.payload, self._in_headers
        # What this batch found out: a schema that the registry lacks is asked for again in the next one.
        formats: dict[SchemaId, Format | DataError] = {}

        def read(message: Message) -> _Found | DataError:
            data = payload(message)
            if data is None:
                return invalid(f"the {self._part} is null{TOMBSTONE if self._part is Part.VALUE else ''}")
            framed = from_headers(self._part, message.headers()) if in_headers else from_prefix(data)
            if isinstance(framed, DataError):
                return framed
            known = formats.get(framed.schema_id)
            if known is None:
                known = formats[framed.schema_id] = self._format(framed.schema_id)
            return known if isinstance(known, DataError) else _read(known, framed, data)

        return _grouped(messages, read)

    def _format(self, schema_id: SchemaId) -> Format | DataError:
        if (known := self._formats.get(schema_id)) is not None:
            return known
        registry = self._registry
        schema = (
            registry.schema(schema_id) if isinstance(schema_id, int) else registry.schema_by_guid(schema_id)
        )
        if schema is None:
            return invalid(f"the schema registry has no schema {schema_id}")
        return self._formats.of(schema_id, schema)


class LatestSchemaDecoder:
    """`by_latest_schema`: bare bodies, read with the latest version of one subject.

    A body does not say which version it was written with. When one does not fit, the registry is asked whether there
    is a newer version before the record is given up.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        topic: str,
        part: Part,
        settings: PartSettings,
        compile_schema: Compile | None = None,
    ) -> None:
        self._registry = registry
        self._part = part
        self._message = settings.message
        self._subject = settings.subject or subject_of(settings.strategy, topic, part, settings.message)
        self._formats = _Formats(compile_schema or compile_registered)

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows of the latest schema, and data errors."""
        schema = self._registry.latest(self._subject)
        found = self._decode(messages, schema)
        if not found.errors:
            return found
        newer = self._registry.latest(self._subject, newer=True)
        return found if newer == schema else self._decode(messages, newer)

    def _decode(self, messages: Sequence[Message], schema: RegisteredSchema | None) -> Decoded:
        if schema is None:
            reader: DataError | Reader = unmappable(f"the schema registry has no subject {self._subject}")
        else:
            reader = self._reader(schema)
        payload = self._part.payload
        key = (self._subject, "" if schema is None else schema.text)
        schema_id = 0 if schema is None else schema.id

        def read(message: Message) -> _Found | DataError:
            data = payload(message)
            if data is None:
                return invalid(f"the {self._part} is null{TOMBSTONE if self._part is Part.VALUE else ''}")
            if isinstance(reader, DataError):
                return reader
            try:
                return key, schema_id, reader, reader.read(data, 0)
            except BAD_BYTES as error:
                return invalid(f"not a value of the latest schema of {self._subject}: {error_text(error)}")

        return _grouped(messages, read)

    def _reader(self, schema: RegisteredSchema) -> Reader | DataError:
        known = self._formats.of((self._subject, schema.text), schema)
        if isinstance(known, DataError):
            return unmappable(f"the latest schema of {self._subject}: {known.reason}")
        try:
            return known.named(self._message)
        except Unmappable as error:
            return unmappable(f"the latest schema of {self._subject}: {error}")


TOMBSTONE = " (a tombstone)"


def subject_of(strategy: SubjectStrategy, topic: str, part: Part, record: str) -> str:
    """The subject that a producer registers under by this strategy."""
    match strategy:
        case SubjectStrategy.RECORD:
            return record
        case SubjectStrategy.TOPIC_RECORD:
            return f"{topic}-{record}"
        case _:
            return f"{topic}-{part}"


def compile_registered(schema: RegisteredSchema) -> Format:
    """A schema of any kind, compiled.

    Raises:
        Unmappable: it has no table form.
    """
    match schema.kind:
        case "AVRO":
            from ingest_plugin.decode.avro import compile_avro  # noqa: PLC0415 - pulls fastavro in

            return compile_avro(schema)
        case "PROTOBUF":
            from ingest_plugin.decode.protobuf import compile_protobuf  # noqa: PLC0415 - an optional dependency

            return compile_protobuf(schema)
        case "JSON":
            from ingest_plugin.decode.json_schema import compile_json_schema  # noqa: PLC0415 - only where it is met

            return compile_json_schema(schema)
        case other:
            raise Unmappable(f"it is {other}; Avro, Protobuf and JSON Schema are offered")


def error_text(error: Exception) -> str:
    """What an error says, with its kind where that helps."""
    text = str(error)
    told = isinstance(error, Unmappable | ValueError) and text
    return text if told else f"{type(error).__name__} {text}".rstrip()


def _read(known: Format, framed: Framed, data: bytes) -> _Found | DataError:
    try:
        if framed.prelude is None:
            variant, reader, start = known.select(data, framed.start)
        else:
            variant, reader, end = known.select(framed.prelude, 0)
            if end != len(framed.prelude):
                raise ValueError("the header has more bytes than the schema id needs")
            start = framed.start
        number = framed.schema_id if isinstance(framed.schema_id, int) else 0
        return (framed.schema_id, variant), number, reader, reader.read(data, start)
    except Unmappable as error:
        return unmappable(f"schema {framed.schema_id} cannot become a table: {error}")
    except BAD_BYTES as error:
        return invalid(f"not a value of schema {framed.schema_id}: {error_text(error)}")


def _grouped(messages: Sequence[Message], read: Callable[[Message], _Found | DataError]) -> Decoded:
    result = Decoded()
    groups: dict[Hashable, Group] = {}
    for position, message in enumerate(messages):
        found = read(message)
        if isinstance(found, DataError):
            result.errors[position] = found
            continue
        key, schema_id, reader, row = found
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(
                rows=[],
                positions=[],
                struct=reader.struct,
                schema_key=key if reader.trusted else None,
                schema_id=schema_id,
                trusted=reader.trusted,
                single=reader.single,
            )
        group.rows.append(row)
        group.positions.append(position)
    result.groups.extend(groups.values())
    return result
