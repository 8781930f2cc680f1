"""What the document says about configuration, tokens, namespaces and views."""

from catalog_server.api.iceberg.openapi.described import (
    CONFLICT,
    CONTRADICTORY,
    FORM,
    ON_FILES,
    UNKNOWN,
    Described,
)

_BUCKET = "/v1/{prefix}"
_NAMESPACE = _BUCKET + "/namespaces/{namespace}"
_VIEW = _NAMESPACE + "/views/{view}"
_PAGED = ("pageToken", "pageSize")
_ONCE = ("Idempotency-Key",)
_NO_BUCKET = {UNKNOWN: "There is no such bucket."}
_NO_NAMESPACE = {UNKNOWN: "There is no such bucket or namespace."}
_NO_VIEW = {UNKNOWN: "There is no such view."}

_START = {
    "GET /v1/config": Described(
        id="getConfig",
        summary="Where a client begins",
        doc="Gives the prefix of all further paths and the list of operations that work.",
        tag="configuration",
        parameters=("warehouse",),
        answer="CatalogConfig",
        refusals=_NO_BUCKET,
    ),
    "POST /v1/oauth/tokens": Described(
        id="getToken",
        summary="Get a token for a credential",
        doc="For clients that were given a credential. Errors have the form of RFC 6749.",
        tag="configuration",
        body="OAuthTokenRequest",
        body_type=FORM,
        answer="OAuthTokenResponse",
        headers=("Cache-Control",),
        refusals={401: "The credential is missing or refused."},
    ),
}

_NAMESPACES = {
    f"GET {_BUCKET}/namespaces": Described(
        id="listNamespaces",
        summary="List namespaces",
        tag="namespaces",
        parameters=("parent", *_PAGED),
        answer="ListNamespacesResponse",
        refusals={UNKNOWN: "There is no such bucket, or no such parent."},
    ),
    f"POST {_BUCKET}/namespaces": Described(
        id="createNamespace",
        summary="Make a namespace",
        tag="namespaces",
        parameters=_ONCE,
        body="CreateNamespaceRequest",
        answer="NamespaceResponse",
        refusals={
            UNKNOWN: "There is no such bucket, or the parent is missing.",
            CONFLICT: "The namespace exists.",
        },
    ),
    f"GET {_NAMESPACE}": Described(
        id="loadNamespaceMetadata",
        summary="Load a namespace's properties",
        tag="namespaces",
        answer="NamespaceResponse",
        refusals=_NO_NAMESPACE,
    ),
    f"HEAD {_NAMESPACE}": Described(
        id="namespaceExists",
        summary="Ask whether a namespace exists",
        tag="namespaces",
        refusals=_NO_NAMESPACE,
    ),
    f"DELETE {_NAMESPACE}": Described(
        id="dropNamespace",
        summary="Drop an empty namespace",
        tag="namespaces",
        parameters=_ONCE,
        refusals={**_NO_NAMESPACE, CONFLICT: "Something is in the namespace."},
    ),
    f"POST {_NAMESPACE}/properties": Described(
        id="updateProperties",
        summary="Set and remove a namespace's properties",
        tag="namespaces",
        parameters=_ONCE,
        body="UpdateNamespacePropertiesRequest",
        answer="UpdateNamespacePropertiesResponse",
        refusals={**_NO_NAMESPACE, CONTRADICTORY: "A property is to be set and removed."},
    ),
}

_VIEWS = {
    f"GET {_NAMESPACE}/views": Described(
        id="listViews",
        summary="List the views of a namespace",
        tag="views",
        parameters=_PAGED,
        answer="ListTablesResponse",
        refusals=_NO_NAMESPACE,
    ),
    f"POST {_NAMESPACE}/views": Described(
        id="createView",
        summary="Make a view",
        tag="views",
        parameters=_ONCE,
        body="CreateViewRequest",
        answer="LoadViewResult",
        refusals={**ON_FILES, **_NO_NAMESPACE, CONFLICT: "A table or view has the name."},
    ),
    f"GET {_VIEW}": Described(
        id="loadView",
        summary="Load a view",
        tag="views",
        parameters=("referenced-by",),
        answer="LoadViewResult",
        refusals={**ON_FILES, **_NO_VIEW},
    ),
    f"HEAD {_VIEW}": Described(
        id="viewExists", summary="Ask whether a view exists", tag="views", refusals=_NO_VIEW
    ),
    f"POST {_VIEW}": Described(
        id="replaceView",
        summary="Change a view",
        doc="Applies all updates or none, if every requirement holds.",
        tag="views",
        parameters=_ONCE,
        body="CommitViewRequest",
        answer="LoadViewResult",
        refusals={
            **ON_FILES,
            **_NO_VIEW,
            CONFLICT: "A requirement does not hold, or the view was changed meanwhile.",
        },
    ),
    f"DELETE {_VIEW}": Described(
        id="dropView",
        summary="Drop a view; its files stay",
        tag="views",
        parameters=_ONCE,
        refusals=_NO_VIEW,
    ),
    f"POST {_NAMESPACE}/register-view": Described(
        id="registerView",
        summary="Adopt a metadata file as a view",
        tag="views",
        parameters=_ONCE,
        body="RegisterViewRequest",
        answer="LoadViewResult",
        refusals={**ON_FILES, **_NO_NAMESPACE, CONFLICT: "A table or view has the name."},
    ),
    f"POST {_BUCKET}/views/rename": Described(
        id="renameView",
        summary="Rename a view",
        tag="views",
        parameters=_ONCE,
        body="RenameTableRequest",
        refusals={
            UNKNOWN: "There is no such view, or no such namespace to move it to.",
            CONFLICT: "A table or view has the new name.",
        },
    ),
}

OPERATIONS: dict[str, Described] = {**_START, **_NAMESPACES, **_VIEWS}
