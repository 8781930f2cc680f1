"""Quiet hours: windows of the week in a time zone, when they end, and what they may be."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from maintenance.policies import COMPACTION, effective
from maintenance.quiet_hours import check_quiet_hours, quiet_hours
from table_format.errors import Invalid


def quiet(*windows, zone="UTC"):
    return quiet_hours(check_quiet_hours("quietHours", {"timeZone": zone, "windows": list(windows)}))


def window(begin, to, *days):
    return {"from": begin, "to": to, **({"days": list(days)} if days else {})}


def at(text, zone="UTC"):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def end(of, text, zone="UTC"):
    until_ms = of.until_ms(at(text, zone))
    return None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC).isoformat()[:16]


# 2026-06-15 is a Monday.
@pytest.mark.parametrize(
    ("moment", "until"),
    [
        ("2026-06-15T07:59:59", None),
        ("2026-06-15T08:00:00", "2026-06-15T18:00"),
        ("2026-06-15T17:59:59", "2026-06-15T18:00"),
        ("2026-06-15T18:00:00", None),
        ("2026-06-16T12:00:00", None),
    ],
)
def test_a_window_holds_from_its_beginning_to_before_its_end_on_its_days(moment, until):
    assert end(quiet(window("08:00", "18:00", "mon")), moment) == until


@pytest.mark.parametrize(
    ("moment", "until"),
    [
        ("2026-06-15T21:59:00", None),
        ("2026-06-15T22:00:00", "2026-06-16T06:00"),
        ("2026-06-16T05:59:00", "2026-06-16T06:00"),
        ("2026-06-16T22:00:00", None),  # only Monday's night
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_it_begins_on(moment, until):
    assert end(quiet(window("22:00", "06:00", "mon")), moment) == until


def test_equal_times_are_a_whole_day_and_no_days_are_every_day():
    assert end(quiet(window("00:00", "00:00", "mon")), "2026-06-15T12:00:00") == "2026-06-16T00:00"
    assert end(quiet(window("12:00", "13:00")), "2026-06-20T12:30:00") == "2026-06-20T13:00"


def test_windows_that_touch_or_overlap_end_together():
    of = quiet(window("08:00", "12:00"), window("12:00", "18:00"), window("17:00", "20:00", "mon"))
    assert end(of, "2026-06-15T09:00:00") == "2026-06-15T20:00"
    assert end(of, "2026-06-16T09:00:00") == "2026-06-16T18:00"


def test_a_weekend_is_one_quiet():
    of = quiet(window("00:00", "00:00", "sat", "sun"))
    assert end(of, "2026-06-20T01:00:00") == "2026-06-22T00:00"


@pytest.mark.parametrize(
    ("moment", "until"),
    [
        ("2026-01-15T08:30:00", "2026-01-15T17:00"),  # winter: an hour ahead of UTC
        ("2026-06-15T08:30:00", "2026-06-15T16:00"),  # summer: two
        ("2026-06-15T07:30:00", None),
    ],
)
def test_the_clock_on_the_wall_counts(moment, until):
    of = quiet(window("08:00", "18:00"), zone="Europe/Berlin")
    assert end(of, moment, "Europe/Berlin") == until


def test_a_window_over_the_change_to_summer_time_is_an_hour_shorter():
    of = quiet(window("22:00", "06:00"), zone="Europe/Berlin")
    begin, over = at("2026-03-28T22:00:00", "Europe/Berlin"), at("2026-03-29T06:00:00", "Europe/Berlin")
    assert (of.until_ms(begin), over - begin) == (over, 7 * 3_600_000)
    assert of.until_ms(begin - 1) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("08:00-18:00", "must be {"),
        ({"timeZone": "UTC"}, "must be {"),
        ({"windows": [], "zone": "UTC"}, "must be {"),
        ({"windows": []}, "windows must be a list of 1 to 20 windows"),
        ({"windows": [window("08:00", "09:00")] * 21}, "windows must be a list of 1 to 20 windows"),
        ({"windows": {}}, "windows must be a list"),
        ({"windows": ["08:00"]}, r"windows\[0\] must have from and to"),
        ({"windows": [{"from": "08:00"}]}, r"windows\[0\] must have from and to"),
        ({"windows": [{**window("08:00", "09:00"), "until": 1}]}, "must have from and to, and may have days"),
        ({"windows": [window("8:00", "09:00")]}, "from is '8:00': write a time of the day as HH:MM"),
        ({"windows": [window("08:00", "24:00")]}, "to is '24:00': write a time"),
        ({"windows": [window("08:00", 9)]}, "to is '9': write a time"),
        ({"windows": [window("08:00", "09:00", "monday")]}, "days must be a list out of mon, tue"),
        ({"windows": [{**window("08:00", "09:00"), "days": []}]}, "days must be a list out of"),
        ({"windows": [{**window("08:00", "09:00"), "days": [["mon"]]}]}, "days must be a list out of"),
        ({"windows": [window("00:00", "00:00")]}, "leaves no time of the week"),
        ({"windows": [window("00:00", "12:00"), window("11:00", "00:00")]}, "leaves no time of the week"),
        *(
            ({"timeZone": zone, "windows": [window("08:00", "09:00")]}, "time zone .* is not known")
            for zone in ("Mars/Olympus", "Europe", "../etc/passwd", "/etc/passwd", "", "UTC\0", "x" * 99)
        ),
        ({"timeZone": 1, "windows": [window("08:00", "09:00")]}, "timeZone must be the name of a time zone"),
    ],
)
def test_what_is_wrong_is_refused_in_words(value, message):
    with pytest.raises(Invalid, match=message):
        check_quiet_hours("quietHours", value)


def test_a_checked_value_is_complete_and_in_order():
    checked = check_quiet_hours("quietHours", {"windows": [window("08:00", "09:00", "sun", "mon", "sun")]})
    assert checked == {
        "timeZone": "UTC",
        "windows": [{"days": ["mon", "sun"], "from": "08:00", "to": "09:00"}],
    }


def test_a_zone_that_is_not_known_any_more_switches_off_and_says_so():
    stored = {"timeZone": "Mars/Olympus", "windows": [{"days": ["mon"], "from": "08:00", "to": "09:00"}]}
    policy = effective(COMPACTION, [{"status": "enabled", "settings": {"quietHours": stored}}], {})
    assert policy.disabled_reason == (
        "the time zone 'Mars/Olympus' of its quiet hours is not known on this machine"
    )
