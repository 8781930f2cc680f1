"""The management API's documents of what is kept for a bucket or table: tags, and settings of S3 Tables."""

from typing import Literal

from pydantic import Field

from catalog_server.api.management.wire import Wire
from catalog_server.services.kept_settings import MOST_POLICY_BYTES


class TagSet(Wire):
    """All tags of a bucket or table."""

    tags: dict[str, str] = Field(
        description="At most 50; keys of 1 to 128, values of at most 256 characters; aws: is reserved."
    )


class ResourcePolicy(Wire):
    """A resource policy as it was put, to the byte. It is kept and allows or denies nothing yet."""

    resource_policy: str = Field(
        min_length=1, max_length=MOST_POLICY_BYTES, description="A policy in JSON, of at most 20,480 bytes."
    )


class Encryption(Wire):
    """An encryption that is asked for. It is kept; how objects are encrypted is the object store's setting."""

    sse_algorithm: Literal["AES256", "aws:kms"]
    kms_key_arn: str | None = Field(
        None,
        min_length=1,
        max_length=2048,
        pattern="^arn:aws[-a-z0-9]*:kms:[-a-z0-9]*:[0-9]{12}:key/.+$",
        description="With aws:kms, and only with it.",
    )


class EncryptionInForce(Encryption):
    """The encryption that is asked for, and where."""

    source: Literal["table", "bucket"]


class StorageClass(Wire):
    """A storage class that is asked for. It is kept; objects are written in the store's default class."""

    storage_class: Literal["STANDARD", "INTELLIGENT_TIERING"]


class StorageClassInForce(StorageClass):
    """The storage class that is asked for, and where."""

    source: Literal["table", "bucket", "default"]


class MetricsConfiguration(Wire):
    """Whether metrics of a bucket were asked for. The server's metrics are at /metrics in any case."""

    enabled: bool
