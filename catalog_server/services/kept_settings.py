"""Settings that S3 Tables has and that nothing here acts on yet: their names, and what they may be.

Resource policies, encryption, storage class and metrics configuration are kept for a bucket or table and given back as
they were given. What could not be enforced later is refused now.
"""

from typing import Final

from table_format.errors import Invalid, TableFormatError
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

RESOURCE_POLICY: Final = "resourcePolicy"
ENCRYPTION: Final = "encryptionConfiguration"
STORAGE_CLASS: Final = "storageClassConfiguration"
METRICS: Final = "metricsConfiguration"

MOST_POLICY_BYTES: Final = 20_480
DEFAULT_STORAGE_CLASS: Final = "STANDARD"
METRICS_ID: Final = "EntireTableBucket"


def check_policy(text: str) -> None:
    """Check the form of a resource policy.

    Raises:
        Invalid: it is too long, no JSON, or has no statements with an effect.
    """
    size = len(text.encode())
    if size > MOST_POLICY_BYTES:
        raise Invalid(
            f"The specified resource policy is not valid: it has {size} bytes, at most {MOST_POLICY_BYTES} are "
            "allowed"
        )
    try:
        document = jsontext.loads(text.encode())
    except TableFormatError as error:
        raise Invalid(f"The specified resource policy is not valid: it is {error.message}") from None
    statements = document.get("Statement") if isinstance(document, dict) else None
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list):
        raise Invalid(
            'The specified resource policy is not valid: it must be a JSON object with a "Statement"'
        )
    for place, statement in enumerate(statements):
        if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
            raise Invalid(
                f"The specified resource policy is not valid: statement {place} must be an object with "
                'an "Effect" of "Allow" or "Deny"'
            )


def check_encryption(document: JsonObject) -> None:
    """Check that an encryption's algorithm and key go together.

    Raises:
        Invalid: they do not.
    """
    has_key = "kmsKeyArn" in document
    if document["sseAlgorithm"] == "aws:kms" and not has_key:
        raise Invalid("The specified encryption configuration is not valid: aws:kms needs a kmsKeyArn")
    if document["sseAlgorithm"] == "AES256" and has_key:
        raise Invalid("The specified encryption configuration is not valid: AES256 takes no kmsKeyArn")
