"""Namespaces: list, create, load, exists, drop, properties."""

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call, json_answer, no_content
from catalog_server.api.iceberg.wire import namespace_member, properties_update, strings
from catalog_server.services.namespaces import NamespaceInfo, PropertiesChange
from catalog_server.services.paging import Page
from table_format.errors import Invalid, NoSuchNamespace
from table_format.ident import Namespace
from table_format.jsontypes import JsonObject


async def list_namespaces(call: Call) -> Response:
    """Children of `parent`, or the top level."""
    parent = call.query.namespace("parent") or Namespace(())
    try:
        page = await _children(call, parent)
    except NoSuchNamespace as error:
        # PyIceberg encodes the parent twice. If that finds nothing either, the error speaks of the first reading.
        again = call.query.namespace_encoded_twice("parent")
        if again is None:
            raise
        try:
            page = await _children(call, again)
        except NoSuchNamespace:
            raise error from None
    names = [namespace.levels for namespace in page.items]
    return json_answer({"namespaces": names, "next-page-token": page.next_token})


async def create_namespace(call: Call) -> Response:
    """Create one namespace with its properties."""
    namespace = namespace_member(call.body)
    separator = call.names.separator
    if any(separator in level for level in namespace.levels):
        raise Invalid(f"namespace level must not hold {separator!r}: it separates levels on this server")
    info = await call.platform.namespaces.create(
        call.principal, call.bucket, namespace, strings(call.body, "properties")
    )
    return json_answer(described(info))


async def load_namespace(call: Call) -> Response:
    """A namespace and its properties."""
    info = await call.platform.namespaces.get(call.principal, call.bucket, call.namespace)
    return json_answer(described(info))


async def namespace_exists(call: Call) -> Response:
    """204 or 404."""
    namespace = call.namespace
    if not await call.platform.namespaces.exists(call.principal, call.bucket, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {namespace}")
    return no_content()


async def drop_namespace(call: Call) -> Response:
    """Drop an empty namespace."""
    await call.platform.namespaces.drop(call.principal, call.bucket, call.namespace)
    return no_content()


async def update_properties(call: Call) -> Response:
    """Set and remove properties."""
    updates, removals = properties_update(call.body)
    change = await call.platform.namespaces.update_properties(
        call.principal, call.bucket, call.namespace, removals=removals, updates=updates
    )
    return json_answer(changed(change))


async def _children(call: Call, parent: Namespace) -> Page[Namespace]:
    return await call.platform.namespaces.list(call.principal, call.bucket, parent, call.page())


def described(info: NamespaceInfo) -> JsonObject:
    """A namespace on the wire."""
    return {"namespace": info.namespace.levels, "properties": dict(info.properties)}


def changed(change: PropertiesChange) -> JsonObject:
    """A change of properties on the wire."""
    return {"updated": change.updated, "removed": change.removed, "missing": change.missing}
