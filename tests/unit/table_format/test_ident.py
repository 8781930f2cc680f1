"""Locations as text: slashes at the end, joining, and the two ways to write a local file."""

import pytest

from table_format.ident import canonical, contains, join, strip_slash


@pytest.mark.parametrize(
    ("location", "stripped"),
    [
        ("s3://b/x//", "s3://b/x"),
        ("s3://b/", "s3://b"),
        ("file:///a/", "file:///a"),
        ("file:/a/b/", "file:/a/b"),
        ("file:/a", "file:/a"),
        ("file:///", "file:///"),
        ("file:/", "file:/"),
        ("s3://", "s3://"),
    ],
)
def test_slashes_at_the_end(location: str, stripped: str) -> None:
    assert strip_slash(location) == stripped


def test_join_keeps_the_form_of_the_location() -> None:
    assert join("s3://b/t/", "metadata", "x") == "s3://b/t/metadata/x"
    assert join("file:/a/t/", "/metadata/", "x") == "file:/a/t/metadata/x"


def test_both_forms_of_a_local_file_are_one_place() -> None:
    assert canonical("file:/a/b") == canonical("file:///a/b") == "file:///a/b"
    assert contains("file:/a/", "file:///a/b")
    assert contains("file:///a", "file:/a/")
    assert not contains("file:/a", "file:///ab")


def test_R32_a_place_ends_at_its_slash_and_nothing_in_it_is_a_pattern() -> None:
    """What a credential may reach, a clean-up may list and an overlap is: all of it asks this one question."""
    for outer in ("s3://b/w/orders", "s3://b/w/orders/"):
        assert contains(outer, "s3://b/w/orders/x")
        for sibling in ("s3://b/w/orders2", "s3://b/w/orders2/x", "s3://b/w/orders%2fx", "s3://b/w/order"):
            assert not contains(outer, sibling)
    for pattern in ("s3://b/w/*", "s3://b/w/o?ders", "s3://b/w/[o]rders", "s3://b/**", "s3://b/w/${x}"):
        assert not contains(pattern, "s3://b/w/orders/x")
        assert contains(pattern, f"{pattern}/x")
