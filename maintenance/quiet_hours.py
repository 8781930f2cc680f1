"""Quiet hours: times of the week at which no maintenance begins, in a time zone of the user's choice.

Pure; the time zone database is the only thing asked. Windows follow the clock on the wall: where summer time begins
or ends, a window is an hour shorter or longer.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_WINDOWS: Final = 20
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", re.ASCII)
_MAX_ZONE: Final = 64
_WEEK: Final = timedelta(days=7)
_SOME_MONDAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From one time of the day to another on some days of the week; `to` at or before `begin` is on the next day."""

    days: tuple[int, ...]
    """0 is Monday; the day on which the window begins."""
    begin: tuple[int, int]
    to: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Windows of the week in one time zone."""

    time_zone: str
    windows: tuple[Window, ...]

    @property
    def zone_is_known(self) -> bool:
        """Whether this machine knows the time zone; it was known where the policy was set."""
        try:
            _zone(self.time_zone)
        except Invalid:
            return False
        return True

    def until_ms(self, now_ms: int) -> int | None:
        """When the quiet in force at that moment ends, in milliseconds; None when it is not quiet.

        Raises:
            Invalid: the time zone is not known on this machine.
        """
        zone = _zone(self.time_zone)
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        end = self._end(now, zone)
        if end is None:
            return None
        # Windows may touch: the quiet ends where no window goes on.
        while end < now + 2 * _WEEK and (later := self._end(end, zone)) is not None:
            end = later
        return int(end.timestamp() * 1000)

    def _end(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The latest end of the windows that the moment lies in."""
        today = moment.astimezone(zone).date()
        ends = [
            end
            for day in (today - timedelta(days=1), today)
            for window in self.windows
            if day.weekday() in window.days
            for begin, end in [_bounds(window, day, zone)]
            if begin <= moment < end
        ]
        return max(ends, default=None)


def _bounds(window: Window, day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    last = day + timedelta(days=1) if window.to <= window.begin else day
    return _at(day, window.begin, zone), _at(last, window.to, zone)


def _at(day: date, time: tuple[int, int], zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, *time, tzinfo=zone).astimezone(UTC)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if len(name) <= _MAX_ZONE and _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # not found, not a zone file, a folder of zones
            pass
    raise Invalid(f"time zone {name[:_MAX_ZONE]!r} is not known: write a name such as Europe/Berlin or UTC")


def check_quiet_hours(name: str, value: object) -> JsonObject:
    """The setting with all its members, checked.

    Raises:
        Invalid: it is not {"timeZone": …, "windows": [{"days": […], "from": "HH:MM", "to": "HH:MM"}, …]}, or leaves
            no time of the week.
    """
    if not isinstance(value, dict) or not set(value) <= {"timeZone", "windows"} or "windows" not in value:
        raise Invalid(
            f'setting {name} must be {{"timeZone": "Europe/Berlin", '
            '"windows": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}'
        )
    zone = value.get("timeZone", "UTC")
    if not isinstance(zone, str):
        raise Invalid(f"{name}.timeZone must be the name of a time zone such as Europe/Berlin or UTC")
    _zone(zone)
    windows = value["windows"]
    if not isinstance(windows, list) or not 1 <= len(windows) <= _MAX_WINDOWS:
        raise Invalid(f"{name}.windows must be a list of 1 to {_MAX_WINDOWS} windows")
    checked: JsonObject = {
        "timeZone": zone,
        "windows": [_checked(f"{name}.windows[{place}]", window) for place, window in enumerate(windows)],
    }
    end_ms = _without_zone(checked).until_ms(int(_SOME_MONDAY.timestamp() * 1000))
    if end_ms is not None and datetime.fromtimestamp(end_ms / 1000, UTC) >= _SOME_MONDAY + _WEEK:
        raise Invalid(f'{name} leaves no time of the week: set the policy\'s status to "disabled" instead')
    return checked


def _without_zone(checked: JsonObject) -> QuietHours:
    return quiet_hours({**checked, "timeZone": "UTC"})


def _checked(where: str, window: object) -> JsonObject:
    if not isinstance(window, dict) or not {"from", "to"} <= set(window) <= {"days", "from", "to"}:
        raise Invalid(f"{where} must have from and to, and may have days")
    days = window.get("days", list(DAYS))
    if not isinstance(days, list) or not days or not all(isinstance(d, str) and d in DAYS for d in days):
        raise Invalid(f"{where}.days must be a list out of {', '.join(DAYS)}")
    for end in ("from", "to"):
        if not isinstance(window[end], str) or not _TIME.fullmatch(window[end]):
            raise Invalid(f"{where}.{end} is {str(window[end])[:40]!r}: write a time of the day as HH:MM")
    return {"days": [day for day in DAYS if day in days], "from": window["from"], "to": window["to"]}


def quiet_hours(checked: JsonObject) -> QuietHours:
    """The quiet hours of a setting that was checked."""
    return QuietHours(
        time_zone=checked["timeZone"],
        windows=tuple(
            Window(
                days=tuple(DAYS.index(day) for day in window["days"]),
                begin=_time(window["from"]),
                to=_time(window["to"]),
            )
            for window in checked["windows"]
        ),
    )


def _time(text: str) -> tuple[int, int]:
    hours, _, minutes = text.partition(":")
    return int(hours), int(minutes)
