"""Tables: list, create, load, exists, commit, drop, register, unregister, rename, credentials, signing."""

from dataclasses import replace

from starlette.responses import Response

from catalog_server.api.callers import caller_of
from catalog_server.api.headers import headers
from catalog_server.api.iceberg.call import Call, json_answer, no_content
from catalog_server.api.iceberg.load_result import (
    ALL,
    REFS,
    etag,
    load_result,
    matches,
    not_modified,
    unregister_result,
)
from catalog_server.api.iceberg.wire import checked_name, objects, optional, required, strings, table_ident
from catalog_server.services.tables import TableSpec
from table_format.errors import Invalid, NoSuchTable
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject


async def list_tables(call: Call) -> Response:
    """The tables of one namespace."""
    namespace = call.namespace
    page = await call.platform.tables.names(call.principal, call.bucket, namespace, call.page())
    identifiers = [{"namespace": namespace.levels, "name": name} for name in page.items]
    return json_answer({"identifiers": identifiers, "next-page-token": page.next_token})


async def create_table(call: Call) -> Response:
    """Create a table, or with `stage-create` only compute what it would be."""
    body = call.body
    ident = TableIdent(call.namespace, checked_name(body.get("name"), "'name'"))
    spec = TableSpec(
        schema=required(body, "schema", dict),
        partition_spec=optional(body, "partition-spec", dict),
        write_order=optional(body, "write-order", dict),
        properties=strings(body, "properties"),
        location=optional(body, "location", str),
    )
    tables = call.platform.tables
    if optional(body, "stage-create", bool):
        handle = await tables.stage(call.principal, call.bucket, ident, spec)
    else:
        handle = await tables.create(call.principal, call.bucket, ident, spec)
    return await load_result(call, handle)


async def load_table(call: Call) -> Response:
    """A table's metadata; 304 from the pointer alone when the client has this version."""
    snapshots = call.query.choice("snapshots", ALL, REFS)
    call.query.check_chain()
    ident = call.table
    await call.platform.turns.before_load(call.bucket, ident, caller_of(call.request))
    known = headers(call.request.scope, b"if-none-match")
    if known:
        row = await call.platform.tables.pointer(call.principal, call.bucket, ident)
        tag = await etag(call, row.metadata_location, row.table_uuid, snapshots)
        if matches(known, tag):
            return not_modified(tag)
    handle = await call.platform.tables.load(call.principal, call.bucket, ident)
    return await load_result(call, handle, snapshots)


async def table_exists(call: Call) -> Response:
    """204 or 404."""
    await _must_exist(call)
    return no_content()


async def commit_table(call: Call) -> Response:
    """Apply updates if the requirements hold."""
    optional(call.body, "identifier", dict)
    requirements = objects(call.body, "requirements")
    call = _as_staged(call, requirements)
    handle = await call.platform.commits.commit(
        call.principal,
        call.bucket,
        call.table,
        requirements,
        objects(call.body, "updates"),
        caller=caller_of(call.request),
    )
    return await load_result(call, handle)


async def drop_table(call: Call) -> Response:
    """Forget the table; with `purgeRequested` its files are deleted later, by maintenance."""
    tables = call.platform.tables
    remove = tables.purge if call.query.flag("purgeRequested") else tables.drop
    await remove(call.principal, call.bucket, call.table)
    return no_content()


async def unregister_table(call: Call) -> Response:
    """Forget the table, keep all its files, and tell where its last metadata lies."""
    handle = await call.platform.tables.unregister(call.principal, call.bucket, call.table)
    return unregister_result(handle)


async def register_table(call: Call) -> Response:
    """Adopt existing metadata as a table."""
    handle = await call.platform.tables.register(
        call.principal,
        call.bucket,
        TableIdent(call.namespace, checked_name(call.body.get("name"), "'name'")),
        required(call.body, "metadata-location", str),
        overwrite=bool(optional(call.body, "overwrite", bool)),
    )
    return await load_result(call, handle)


async def rename_table(call: Call) -> Response:
    """Give a table another name, maybe in another namespace."""
    source, destination = table_ident(call.body, "source"), table_ident(call.body, "destination")
    await call.platform.tables.rename(call.principal, call.bucket, source, destination)
    return no_content()


async def load_credentials(call: Call) -> Response:
    """Storage credentials: none are vended."""
    call.query.check_chain()
    await _must_exist(call)
    return json_answer({"storage-credentials": []})


async def sign_request(call: Call) -> Response:
    """Remote signing of requests to the object store: not offered, and not advertised.

    Raises:
        Invalid: always, unless the table is missing; the specification knows no other answer for it.
    """
    required(call.body, "uri", str)
    required(call.body, "method", str)
    await _must_exist(call)
    raise Invalid("Remote signing is not offered by this catalog: use storage credentials of your own")


def _as_staged(call: Call, requirements: list[JsonObject]) -> Call:
    """A raw plus is read as a space first; but a table that is born gets the name under which it was staged."""
    if not call.names.ambiguous or all(need.get("type") != "assert-create" for need in requirements):
        return call
    literal = replace(call, names=call.names.literal())
    tables = call.platform.tables
    meant = tables.was_staged(call.bucket, literal.table) and not tables.was_staged(call.bucket, call.table)
    return literal if meant else call


async def _must_exist(call: Call) -> None:
    ident = call.table
    if not await call.platform.tables.exists(call.principal, call.bucket, ident):
        raise NoSuchTable(f"Table does not exist: {ident}")
