"""Models of the catalog itself: configuration, namespaces, tables and views as requests and answers, errors."""

from catalog_server.api.iceberg.openapi.shapes import (
    array,
    flag,
    integer,
    nullable,
    record,
    ref,
    text,
    texts,
    variants,
    word,
)
from table_format.jsontypes import JsonObject

_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_NEXT = nullable(text("Pass it as `pageToken` to get the next page; null on the last."))
_CONFIG = texts("Settings for the client, for this table or view only.")
_LOCATION = text("Where the files shall be, inside the bucket; chosen by the server when left out.")

_ERRORS: dict[str, JsonObject] = {
    "ErrorModel": record(
        "What went wrong.",
        {
            "message": text("For people: what, where, and what to do about it."),
            "type": text("For programs, for example `NoSuchTableException`."),
            "code": {"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status."},
        },
    ),
    "IcebergErrorResponse": {
        **record("The body of every error.", {"error": ref("ErrorModel")}),
        "additionalProperties": False,
    },
    "OAuthError": record(
        "The body of an error of the token endpoint (RFC 6749).",
        {"error": word("invalid_request", "invalid_client", "unsupported_grant_type")},
        {"error_description": text()},
    ),
}

_CONFIGURATION: dict[str, JsonObject] = {
    "CatalogConfig": record(
        "What a client must know before its first request.",
        {
            "defaults": texts("Settings that the client may overrule."),
            "overrides": texts("Settings that overrule the client's; `prefix` is the bucket."),
            "endpoints": array(text(), "The operations that work, as `VERB path`."),
            "idempotency-key-lifetime": text(
                "How long an Idempotency-Key is remembered (ISO 8601 duration)."
            ),
        },
    ),
    "OAuthClientCredentialsRequest": record(
        "A token for a client's own credential.",
        {"grant_type": word("client_credentials")},
        {"scope": text(), "client_id": text(), "client_secret": text()},
    ),
    "OAuthTokenExchangeRequest": record(
        "A token for another token.",
        {"grant_type": word(_EXCHANGE), "subject_token": text(), "subject_token_type": text()},
        {
            "scope": text(),
            "actor_token": text(),
            "actor_token_type": text(),
            "requested_token_type": text(),
        },
    ),
    "OAuthTokenRequest": variants(
        "grant_type",
        {
            "client_credentials": "OAuthClientCredentialsRequest",
            _EXCHANGE: "OAuthTokenExchangeRequest",
        },
        "A request for a token. While the server has no accounts, every credential is accepted.",
    ),
    "OAuthTokenResponse": record(
        "A token.",
        {
            "access_token": text(),
            "token_type": word("bearer"),
            "expires_in": integer("Seconds.", low=1),
            "issued_token_type": text(),
            "scope": text(),
        },
    ),
}

_NAMESPACES: dict[str, JsonObject] = {
    "CreateNamespaceRequest": record(
        "A namespace to make; its parent must exist.",
        {"namespace": ref("Namespace")},
        {"properties": texts()},
    ),
    "NamespaceResponse": record("A namespace.", {"namespace": ref("Namespace"), "properties": texts()}),
    "ListNamespacesResponse": record(
        "A page of namespaces.",
        {"namespaces": array(ref("Namespace"), uniqueItems=True), "next-page-token": _NEXT},
    ),
    "UpdateNamespacePropertiesRequest": record(
        "Properties to remove and to set; none may be in both.",
        {},
        {"removals": array(text()), "updates": texts()},
    ),
    "UpdateNamespacePropertiesResponse": record(
        "What was done.",
        {
            "updated": array(text(), "Names that were set."),
            "removed": array(text(), "Names that were removed."),
            "missing": array(text(), "Names that were to be removed but were not there."),
        },
    ),
}

_TABLES: dict[str, JsonObject] = {
    "ListTablesResponse": record(
        "A page of tables or views.",
        {"identifiers": array(ref("TableIdentifier"), uniqueItems=True), "next-page-token": _NEXT},
    ),
    "CreateTableRequest": record(
        "A table to make. Ids in it only say which fields mean which columns; the server gives its own.",
        {"name": text(minLength=1), "schema": ref("Schema")},
        {
            "location": _LOCATION,
            "partition-spec": ref("PartitionSpec"),
            "write-order": ref("SortOrder"),
            "stage-create": flag("Only work out the metadata; a later commit with `assert-create` makes it."),
            "properties": texts("`format-version` chooses the version, 2 when left out."),
        },
    ),
    "RegisterTableRequest": record(
        "A metadata file to adopt as a table.",
        {"name": text(minLength=1), "metadata-location": text(minLength=1)},
        {"overwrite": flag("Point a table of that name at the file instead of refusing.")},
    ),
    "RenameTableRequest": record(
        "The old and the new name, maybe in another namespace.",
        {"source": ref("TableIdentifier"), "destination": ref("TableIdentifier")},
    ),
    "StorageCredential": record(
        "Credentials for all locations that begin with the prefix.",
        {"prefix": text(), "config": texts()},
    ),
    "LoadTableResult": record(
        "A table's metadata and where it is stored.",
        {"metadata": ref("TableMetadata")},
        {
            "metadata-location": text("The metadata file; absent for a staged table, which has none."),
            "config": _CONFIG,
            "storage-credentials": array(ref("StorageCredential")),
        },
    ),
    "CommitTableResponse": record(
        "The table's metadata after the commit.",
        {"metadata-location": text(), "metadata": ref("TableMetadata")},
        {"config": _CONFIG},
    ),
    "LoadCredentialsResponse": record(
        "Credentials for the table's files; empty while none are vended.",
        {"storage-credentials": array(ref("StorageCredential"))},
    ),
    "ReportMetricsRequest": record(
        "A client's report on a scan or a commit; its other members are taken as they come.",
        {"report-type": text("`scan-report` or `commit-report`.")},
    ),
}

_VIEWS: dict[str, JsonObject] = {
    "CreateViewRequest": record(
        "A view to make.",
        {"name": text(minLength=1), "schema": ref("Schema"), "view-version": ref("ViewVersion")},
        {"location": _LOCATION, "properties": texts()},
    ),
    "RegisterViewRequest": record(
        "A metadata file to adopt as a view.",
        {"name": text(minLength=1), "metadata-location": text(minLength=1)},
    ),
    "LoadViewResult": record(
        "A view's metadata and where it is stored.",
        {"metadata-location": text(), "metadata": ref("ViewMetadata")},
        {"config": _CONFIG},
    ),
}

MODELS: dict[str, JsonObject] = {**_ERRORS, **_CONFIGURATION, **_NAMESPACES, **_TABLES, **_VIEWS}
