"""Names as people type them."""

import pytest
import typer

from catalog_server.cli.client import parse_namespace, parse_table, shown_name
from table_format.ident import Namespace, TableIdent


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ("db", "t")),
        ("a.b.c", ("a", "b", "c")),
        ('db."a.b"', ("db", "a.b")),
        ('"a.b".t', ("a.b", "t")),
        ('db."say ""hi"""', ("db", 'say "hi"')),
        ("db.with space/slash%", ("db", "with space/slash%")),
    ],
)
def test_parse_and_show(text: str, parts: tuple[str, ...]) -> None:
    assert parse_table(text) == TableIdent.of(*parts)
    assert parse_namespace(text) == Namespace(parts)
    assert parse_table(shown_name(list(parts[:-1]), parts[-1])) == TableIdent.of(*parts)


@pytest.mark.parametrize("text", ["", "t", ".t", "db.", "a..b", '"a', '"a"b.c', '"".t'])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_table(text)
