"""KEY=VALUE as people type it, for properties, storage settings and tags: texts, all of them."""

from collections.abc import Iterable, Mapping, Sequence

import typer


def parse_pairs(pairs: Sequence[str] | None) -> dict[str, str]:
    """What the pairs say; the last of one key counts."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE")
        found[key] = value
    return found


def changed(
    before: Mapping[str, str], pairs: Sequence[str] | None, removed: Iterable[str] | None
) -> dict[str, str]:
    """The texts with those pairs set and those keys taken away, which must be there."""
    gone = set(removed or ())
    wanted = parse_pairs(pairs)
    for key in sorted(gone):
        if key in wanted:
            raise typer.BadParameter(f"{key!r} can not be both set and removed")
        if key not in before:
            raise typer.BadParameter(f"there is no {key!r} to remove")
    return {key: value for key, value in before.items() if key not in gone} | wanted


def shown_pairs(pairs: Mapping[str, str]) -> str | None:
    """The pairs as one cell; None for none."""
    return ", ".join(f"{key}={value}" for key, value in pairs.items()) or None
