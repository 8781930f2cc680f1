"""Shapes that several operations share, with the model's limits and in our own words."""

from catalog_server.api.s3tables.wire import Struct, Text, Texts, Whole

_ARN_START = r"arn:aws[-a-z0-9]*:[a-z0-9]+:[-a-z0-9]*:[0-9]{12}:bucket/"

BUCKET_ARN = Text(pattern=rf"({_ARN_START}[a-z0-9_-]{{3,63}})", doc="The ARN of a table bucket.")
TABLE_ARN = Text(
    least=1,
    most=2048,
    pattern=rf"({_ARN_START}[a-z0-9_-]{{3,63}}/table/[a-zA-Z0-9-_]{{1,255}})",
    doc="The ARN of a table.",
)
RESOURCE_ARN = Text(
    least=1, most=2048, pattern=rf"{_ARN_START}.+", doc="The ARN of a table bucket or of a table."
)
BUCKET_NAME = Text(least=3, most=63, pattern="[0-9a-z-]*")
NAME = Text(least=1, most=255, pattern="[0-9a-z_]*")
ACCOUNT = Text(least=12, most=12, pattern="[0-9].*")
TIME = Text(doc="ISO 8601, in UTC.")
TOKEN = Text(least=1, most=2048, doc="Where the next page begins.")
PAGE_SIZE = Whole(least=1, most=1000, doc="Most entries of one page.")
TYPE = Text(choices=("customer", "aws"), doc="Always `customer` here.")

ENCRYPTION = Struct(
    members={
        "sseAlgorithm": Text(choices=("AES256", "aws:kms")),
        "kmsKeyArn": Text(least=1, most=2048, pattern="(arn:aws[-a-z0-9]*:kms:[-a-z0-9]*:[0-9]{12}:key/.+)"),
    },
    required=("sseAlgorithm",),
    doc="Kept and given back; how objects are encrypted is the object store's setting.",
)
STORAGE_CLASS = Struct(
    members={"storageClass": Text(choices=("STANDARD", "INTELLIGENT_TIERING"))},
    required=("storageClass",),
    doc="Kept and given back; objects are written in the object store's default class.",
)
TAG_KEY = Text(least=1, most=128)
TAGS = Texts(key=TAG_KEY, value=Text(most=256))
