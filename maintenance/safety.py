"""The floors below which a policy could cost data, and what happens to what lies below them.

A policy that asks for less is refused when it is set. One that was stored while the server allowed it (or before there
was a floor) counts as the floor from the moment the server allows it no more, and whoever reads it is told so. With
`maintenance.allow_unsafe` nothing here acts.
"""

from collections.abc import Mapping
from typing import Final

from maintenance.policy_types import Sourced
from maintenance.setting_rules import DAY_S, TWINS, seconds_of
from maintenance.table_properties import MIN_SNAPSHOT_AGE_S
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

MIN_UNREFERENCED_AGE_S: Final = DAY_S
"""An unreferenced file younger than this may belong to a commit in flight."""

_SNAPSHOTS: Final = "icebergSnapshotManagement"
_UNREFERENCED: Final = "icebergUnreferencedFileRemoval"
_LEAST: Final[Mapping[str, int]] = {
    "minSnapshotsToKeep": 1,
    "maxSnapshotAgeSeconds": MIN_SNAPSHOT_AGE_S,
    "maxRefAgeSeconds": MIN_SNAPSHOT_AGE_S,
}
_UNSAFE: Final = "that needs a server that allows unsafe settings (maintenance.allow_unsafe)"


def refuse_unsafe(kind: str, given: JsonObject) -> None:
    """Check the settings of one level.

    Raises:
        Invalid: one lies below its floor, or could together with what another level says.
    """
    if kind == _SNAPSHOTS:
        for name in ("maxSnapshotAgeSeconds", "maxRefAgeSeconds"):
            if given.get(name, MIN_SNAPSHOT_AGE_S) < MIN_SNAPSHOT_AGE_S:
                raise Invalid(
                    f"{name} below {MIN_SNAPSHOT_AGE_S} removes snapshots that readers may still use; {_UNSAFE}"
                )
        if given.get("minSnapshotsToKeep") == 0:
            raise Invalid(f"minSnapshotsToKeep 0 keeps nothing but the heads of branches and tags; {_UNSAFE}")
    if kind != _UNREFERENCED:
        return
    # What a level does not name counts as zero here, so that no mix of levels can fall below the floor.
    ages = [seconds_of(given, "unreferencedDays"), seconds_of(given, "nonCurrentDays")]
    named = [age for age in ages if age is not None]
    if named and sum(named) < MIN_UNREFERENCED_AGE_S:
        raise Invalid(
            f"unreferencedSeconds and nonCurrentSeconds given here add up to {sum(named)} s; below "
            f"{MIN_UNREFERENCED_AGE_S} s files of commits in flight could be deleted: {_UNSAFE}"
        )


def raise_to_floors(kind: str, found: Mapping[str, Sourced]) -> tuple[dict[str, Sourced], tuple[str, ...]]:
    """The settings in force with those below a floor raised to it, and a note on each that was."""
    raised, notes = dict(found), []
    for name, floor in _floors(kind, found).items():
        asked = found[name]
        raised[name] = Sourced(floor, asked.source)
        notes.append(
            f"{name} is {asked.value} ({asked.source}), below the floor: {floor} used; {_UNSAFE}",
        )
    return raised, tuple(notes)


def _floors(kind: str, found: Mapping[str, Sourced]) -> dict[str, int]:
    """The settings that lie below their floors, and those floors."""
    if kind == _SNAPSHOTS:
        return {name: least for name, least in _LEAST.items() if name in found and _int(found[name]) < least}
    if kind != _UNREFERENCED:
        return {}
    values = {name: sourced.value for name, sourced in found.items()}
    noncurrent = seconds_of(values, "nonCurrentDays") or 0
    if (seconds_of(values, "unreferencedDays") or 0) + noncurrent >= MIN_UNREFERENCED_AGE_S:
        return {}
    # Days begin at one, so what lies below a day in sum is given in seconds, both of it.
    return {TWINS["unreferencedDays"]: MIN_UNREFERENCED_AGE_S - noncurrent}


def _int(sourced: Sourced) -> int:
    return sourced.value if isinstance(sourced.value, int) else 0
