"""Places: what is inside a bucket, what is plain enough, and names that become directories."""

import pytest

from catalog_server.services import locations
from table_format.clock import SystemIds
from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent
from tests.fakes.clock import CountingIds


@pytest.mark.parametrize(
    "location",
    ["s3://b", "s3://b/", "s3://b/a b/ü", "file:///a", "file:/a/b", "s3a://b/x/", "memory://x/%41+&=*"],
)
def test_plain_places(location: str) -> None:
    locations.check_text(location)


@pytest.mark.parametrize(
    ("location", "fault"),
    [
        ("", "absolute URI"),
        ("/a", "absolute URI"),
        ("a:b", "absolute URI"),
        ("S3://b/x", "scheme in lower case"),
        ("://b", "absolute URI"),
        ("file://", "empty"),
        ("file:///", "empty"),
        ("s3:///x", ""),
        ("s3://b//x", "empty"),
        ("s3://b/x//", "empty"),
        ("s3://b/../x", "'..'"),
        ("s3://b/x/..", "'..'"),
        ("s3://b/./x", "'.'"),
        ("s3://b/%2E%2e/x", "encoded dot"),
        ("s3://b/a%2fb", "encoded dot, slash"),
        ("s3://b/a%00", "zero byte"),
        ("s3://b/a#b", "'#'"),
        ("s3://b/a?b", "'?'"),
        ("s3://b/a\\b", "'\\\\'"),
        ("s3://b/a\nb", "control"),
        ("s3://b/a\u200bb", "invisible"),
        ("s3://b/a\u202eb", "invisible"),
        ("s3://b/a ", "blank"),
        (" s3://b/a", "absolute URI"),
        ("s3://u:p@b/x", "user information"),
        ("s3://b/\ud800", "control"),
    ],
)
def test_places_that_are_not_plain(location: str, fault: str) -> None:
    if location == "s3:///x":
        # An empty authority is a file's way of writing; no bucket contains it.
        with pytest.raises(Invalid):
            locations.check_inside("s3://b", location)
        return
    with pytest.raises(Invalid) as caught:
        locations.check_text(location)
    assert fault in str(caught.value)


def test_inside_means_below() -> None:
    locations.check_inside("s3://b/w", "s3://b/w/t")
    locations.check_inside("s3://b/w/", "s3a://b/w/t/")
    for location in ("s3://b/w", "s3://b/w/", "s3://b", "s3://b/wx/t", "s3://c/w/t", "file:///b/w/t"):
        with pytest.raises(Invalid):
            locations.check_inside("s3://b/w", location)
    assert locations.is_inside("s3://b/w", "s3://b/w//metadata/x.avro")
    assert not locations.is_inside("s3://b/w", "s3://b/w/../x.avro")
    assert not locations.is_inside("s3://b/w", "s3://b/w2/x.avro")
    assert not locations.is_inside("s3://b/w", "s3://b/w/\x00")


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("flights", "flights"),
        ("a b.c/d%e", "a_b_c_d_e"),
        ("Ärger", "Arger"),
        ("漢字", "x"),
        ("_", "x"),
        ("x" * 200, "x" * 48),
        ("*?${aws:username}'\"", "aws_username"),
    ],
)
def test_a_tables_directory_is_readable_and_url_safe(name: str, directory: str) -> None:
    made = locations.new_location("s3://b/ns", TableIdent.of("ns", name), CountingIds())
    assert made == f"s3://b/ns/{directory}-00000001"


def test_a_fresh_place_each_time() -> None:
    ids = SystemIds()
    made = {locations.new_location("s3://b", TableIdent.of("ns", "t"), ids) for _ in range(100)}
    assert len(made) == 100


def test_a_namespaces_place() -> None:
    namespace = Namespace(("a b", "c"))
    assert locations.namespace_location("s3://b/", namespace, {}) == "s3://b/a_b/c"
    assert locations.namespace_location("s3://b", namespace, {"location": "s3://b/x"}) == "s3://b/x"
