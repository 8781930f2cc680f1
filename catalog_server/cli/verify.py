"""`frazil verify`: whether every file that the catalog's tables need is there."""

from typing import Annotated

import typer
import uvloop

from catalog_server.bootstrap import build
from catalog_server.cli.client import Json
from catalog_server.cli.output import Failed, print_json, print_line, remark
from catalog_server.cli.serve import Config, DataDir, start_errors, start_settings
from catalog_server.services.backups import require_this_revision
from catalog_server.services.verify import Catalog, Verification, Verified
from catalog_server.settings import Settings
from table_format.jsontypes import JsonObject


def verify(
    bucket: Annotated[str | None, typer.Option("--bucket", help="Only this table bucket.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAMESPACE.TABLE", help="Only this table of the bucket.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Look at every data and delete file too, and add the counts up.")
    ] = False,
    requests: Annotated[
        int, typer.Option("--requests", min=1, max=256, help="Files asked for side by side.")
    ] = 16,
    data_dir: DataDir = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check that every file that tables and views need is there; exit code 1 when one is not.

    Reads the database and the object stores directly and changes nothing; servers may run meanwhile.
    """
    if table is not None and bucket is None:
        bucket = "default"
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        found = uvloop.run(_verify(settings, bucket, table, deep=deep, requests=requests, as_json=as_json))
    if table is not None and not found:
        raise Failed(f"bucket {bucket} has no table {table}")
    wrong = [one for one in found if one.verdict.problems]
    if as_json:
        print_json({"looked": len(found), "found": [_document(one) for one in found if _says_something(one)]})
    else:
        files = sum(one.verdict.files for one in found)
        print_line(
            f"{len(found):,} tables and views, {files:,} files looked at: {len(wrong):,} with problems"
        )
    if wrong:
        raise Failed(f"{len(wrong)} of {len(found)} tables and views have problems")


async def _verify(
    settings: Settings, bucket: str | None, table: str | None, *, deep: bool, requests: int, as_json: bool
) -> list[Verified]:
    await require_this_revision(settings)
    platform = build(settings)
    await platform.join()
    catalog = Catalog(
        database=platform.database,
        buckets=platform.buckets,
        tables=platform.tables,
        stores=platform.stores,
    )
    walk = Verification(catalog, deep=deep, requests=requests)
    found = []
    try:
        async for one in walk.run(bucket, table):
            found.append(one)
            if not as_json:
                _tell(one)
    finally:
        walk.close()
        await platform.close()
    return found


def _tell(one: Verified) -> None:
    for problem in one.verdict.problems:
        print_line(f"{one.kind} {one.bucket}/{one.name}: {problem}")
    for warning in one.verdict.warnings:
        remark(f"{one.kind} {one.bucket}/{one.name}: note: {warning}")


def _says_something(one: Verified) -> bool:
    return bool(one.verdict.problems or one.verdict.warnings)


def _document(one: Verified) -> JsonObject:
    return {
        "bucket": one.bucket,
        "kind": one.kind,
        "name": one.name,
        "problems": one.verdict.problems,
        "warnings": one.verdict.warnings,
        "snapshots": one.verdict.snapshots,
        "files": one.verdict.files,
    }
