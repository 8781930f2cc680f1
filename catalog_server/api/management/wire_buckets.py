"""The management API's documents of buckets and namespaces."""

from pydantic import Field

from catalog_server.api.management.wire import Wire


class BucketFigures(Wire):
    """How much is in a bucket or namespace, by what the metadata of its tables tells; never by listing files."""

    namespaces: int = Field(description="Of a bucket: on all levels; of a namespace: directly below it.")
    tables: int
    views: int
    snapshots: int
    data_files: int
    delete_files: int
    records: int = Field(description="Rows in data files, before deletes are applied.")
    bytes: int
    current_tables: int = Field(description="Tables whose sizes are those of their current metadata.")
    stale_tables: int = Field(
        description="Tables that were committed to since they were measured: older sizes are counted."
    )
    unknown_tables: int = Field(
        description="Tables whose sizes are not counted: not measured yet, or not told by their metadata."
    )


class Bucket(Wire):
    """A table bucket."""

    name: str
    arn: str
    resource_id: str = Field(description="The bucket's own; a later one of the same name has another.")
    location: str
    properties: dict[str, str]
    storage: dict[str, str] = Field(description="Properties of its object store; nothing secret.")
    credentials: str | None = Field(
        description="NAME of the setting storage.credentials.NAME; null for none."
    )
    protected: bool = Field(description="Whether it refuses to be deleted.")
    version: int = Field(description="Grows with each change of the bucket; its ETag.")
    created_at_ms: int
    updated_at_ms: int
    figures: BucketFigures | None = Field(description="Null in a listing that was not asked for them.")


class Buckets(Wire):
    """A page of table buckets."""

    buckets: list[Bucket]
    next_page_token: str | None


class BucketSettings(Wire):
    """What can be changed of a bucket. A PUT replaces all of it, so it gives all: what is left out were lost unseen."""

    properties: dict[str, str]
    storage: dict[str, str] = Field(
        description="Properties of its object store, such as s3.endpoint; nothing secret."
    )
    credentials: str | None = Field(description="NAME of the setting storage.credentials.NAME.")
    protected: bool = Field(description="Whether the bucket refuses to be deleted.")


class NewBucket(BucketSettings):
    """A bucket to be made."""

    properties: dict[str, str] = Field(default_factory=dict)
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of its object store, such as s3.endpoint; nothing secret.",
    )
    credentials: str | None = Field(None, description="NAME of the setting storage.credentials.NAME.")
    protected: bool = Field(False, description="Whether the bucket refuses to be deleted.")
    name: str = Field(description="3 to 63 lower-case letters, digits and dashes.")
    location: str | None = Field(
        None,
        description="Where it lies, probed before anything is stored; a place of its own when left out.",
    )
    tags: dict[str, str] = Field(default_factory=dict)


class Namespaces(Wire):
    """A page of namespaces, each as its levels."""

    namespaces: list[list[str]]
    next_page_token: str | None


class NewNamespace(Wire):
    """A namespace to be made."""

    namespace: list[str] = Field(description="Its levels; all but the last must be there.")
    properties: dict[str, str] = Field(default_factory=dict)


class NamespaceProperties(Wire):
    """Properties of a namespace; a PUT replaces all of them."""

    properties: dict[str, str]


class Namespace(Wire):
    """A namespace."""

    bucket: str
    namespace: list[str]
    properties: dict[str, str] = Field(description="As they were given.")
    location: str = Field(description="Below it new tables get their places.")
    version: int = Field(description="Grows with each change of the properties; its ETag.")
    created_at_ms: int
    updated_at_ms: int
    figures: BucketFigures
