import datetime
import itertools

import pytest

from pipeline.vertex import cron
from trainer.errors import UserError

UTC = datetime.UTC


def times(text, after, most, zone="UTC"):
    """The next `most` times after `after`, as the clocks of the zone show them."""
    found = cron.times(cron.parse(text), cron.zone(zone), datetime.datetime.fromisoformat(after))
    return [moment.strftime("%a %Y-%m-%d %H:%M") for moment in itertools.islice(found, most)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["Wed 2026-07-01 10:31", "Wed 2026-07-01 10:32"]),
        ("0 3 * * 1", ["Mon 2026-07-06 03:00", "Mon 2026-07-13 03:00"]),
        ("30 10 * * *", ["Thu 2026-07-02 10:30", "Fri 2026-07-03 10:30"]),
        ("*/20 * * * *", ["Wed 2026-07-01 10:40", "Wed 2026-07-01 11:00"]),
        ("5/25 10 * * *", ["Wed 2026-07-01 10:55", "Thu 2026-07-02 10:05"]),
        ("10-40/15 * * * *", ["Wed 2026-07-01 10:40", "Wed 2026-07-01 11:10"]),
        ("0 8,20 * * *", ["Wed 2026-07-01 20:00", "Thu 2026-07-02 08:00"]),
        ("0 0 1 * *", ["Sat 2026-08-01 00:00", "Tue 2026-09-01 00:00"]),
        ("0 0 31 * *", ["Fri 2026-07-31 00:00", "Mon 2026-08-31 00:00"]),
        ("0 0 1 JAN *", ["Fri 2027-01-01 00:00", "Sat 2028-01-01 00:00"]),
        ("0 0 * feb-mar/1 sun", ["Sun 2027-02-07 00:00", "Sun 2027-02-14 00:00"]),
        ("0 0 * * MON-wed", ["Mon 2026-07-06 00:00", "Tue 2026-07-07 00:00"]),
        ("0 0 * * 0", ["Sun 2026-07-05 00:00", "Sun 2026-07-12 00:00"]),
        ("0 0 * * 7", ["Sun 2026-07-05 00:00", "Sun 2026-07-12 00:00"]),
        ("0 0 * * 5-7", ["Fri 2026-07-03 00:00", "Sat 2026-07-04 00:00", "Sun 2026-07-05 00:00"]),
        ("0 0 29 2 *", ["Tue 2028-02-29 00:00", "Sun 2032-02-29 00:00"]),
        ("  0   3 * *   1 ", ["Mon 2026-07-06 03:00"]),
    ],
)
def test_times_are_those_that_the_fields_name(text, expected):
    assert times(text, "2026-07-01T10:30+00:00", len(expected)) == expected


def test_day_of_month_and_day_of_week_are_alternatives_where_both_are_given():
    expected = ["Fri 2026-02-13 00:00", "Fri 2026-02-20 00:00", "Fri 2026-02-27 00:00", "Fri 2026-03-06 00:00"]
    assert times("0 0 13 * 5", "2026-02-07T00:00+00:00", 4) == expected
    assert times("0 0 13 * *", "2026-02-14T00:00+00:00", 2) == ["Fri 2026-03-13 00:00", "Mon 2026-04-13 00:00"]
    assert times("0 0 14 * fri", "2026-02-13T00:00+00:00", 2) == ["Sat 2026-02-14 00:00", "Fri 2026-02-20 00:00"]


def test_time_that_the_clocks_leave_out_does_not_happen():
    # In London the clocks go from 1:00 to 2:00 on 29 March 2026.
    found = times("30 1 * * *", "2026-03-28T00:00+00:00", 3, "Europe/London")
    assert found == ["Sat 2026-03-28 01:30", "Mon 2026-03-30 01:30", "Tue 2026-03-31 01:30"]


def test_time_that_the_clocks_show_twice_happens_twice():
    # In New York they go from 2:00 back to 1:00 on 1 November 2026.
    start = datetime.datetime(2026, 10, 31, 12, tzinfo=UTC)
    found = itertools.islice(cron.times(cron.parse("30 1 * * *"), cron.zone("America/New_York"), start), 3)
    assert [moment.astimezone(UTC).strftime("%d %H:%M") for moment in found] == [
        "01 05:30",
        "01 06:30",
        "02 06:30",
    ]


def test_hour_stays_by_the_clock_when_the_offset_changes():
    start = datetime.datetime(2026, 3, 22, tzinfo=UTC)
    found = list(itertools.islice(cron.times(cron.parse("0 3 * * 0"), cron.zone("Europe/Berlin"), start), 2))
    assert [moment.astimezone(UTC).hour for moment in found] == [2, 1]
    assert [moment.hour for moment in found] == [3, 3]


def test_hours_apart_from_utc_by_less_than_one_are_met():
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    (moment,) = itertools.islice(cron.times(cron.parse("0 6 * * *"), cron.zone("Asia/Kathmandu"), start), 1)
    assert moment.astimezone(UTC).strftime("%H:%M") == "00:15"


def test_times_are_those_found_minute_by_minute():
    """Against the slow way: each minute of UTC whose local time the fields name."""
    expression, place = cron.parse("*/45 */7 1-31/3 * 2,sat"), cron.zone("Australia/Lord_Howe")
    start = datetime.datetime(2026, 4, 1, tzinfo=UTC)  # its clocks go back by half an hour on the 5th
    minutes = (start + datetime.timedelta(minutes=number) for number in range(1, 14 * 24 * 60))
    local = (minute.astimezone(place) for minute in minutes)
    expected = [
        each
        for each in local
        if expression.names_day(each.date())
        and each.hour in expression.hours
        and each.minute in expression.minutes
    ]
    found = list(itertools.islice(cron.times(expression, place, start), len(expected)))
    assert len(expected) > 30
    assert [each.astimezone(UTC) for each in found] == [each.astimezone(UTC) for each in expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cron '' has 0 fields; write five fields"),
        ("0 3 * *", r"has 4 fields; write five fields, as '0 3 \* \* 1' for Mondays at 3:00"),
        ("0 0 3 * * 1", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("60 3 * * *", "minute is '60'; it must be 0 to 59"),
        ("0 24 * * *", "hour is '24'; it must be 0 to 23"),
        ("0 3 0 * *", "day of month is '0'; it must be 1 to 31"),
        ("0 3 * 13 *", "month is '13'; it must be 1 to 12, or jan to dec"),
        ("0 3 * * 8", "day of week is '8'; it must be 0 to 7, or sun to sat"),
        ("0 3 * * monday", "day of week is 'monday'"),
        ("0 mon * * *", "hour is 'mon'"),
        ("0 3 * * 5-1", "day of week '5-1' ends before it begins"),
        ("*/0 3 * * *", r"minute '\*/0' has a step of 0"),
        ("0 3 ? * 1", r"day of month '\?' is none"),
        ("-1 3 * * *", "minute '-1' is none"),
        ("1.5 3 * * *", "minute '1.5' is none"),
        ("1, 3 * * *", "minute '' is none"),
        ("*-5 3 * * *", r"minute '\*-5' is none"),
        ("٣ 3 * * *", "minute '٣' is none"),
        ("0 0 30 2 *", "names a day that never comes"),
        ("0 0 */2 * 1", r"'\*/2' beside '1' means both days to some.*write the days out, as 1-31/2"),
        ("0 0 1 * */2", "as 0-6/2"),
    ],
)
def test_malformed_expression_is_refused_with_the_field_that_is_wrong(text, message):
    with pytest.raises(UserError, match=message):
        cron.parse(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Europe/Londn", "unknown time zone 'Europe/Londn'; did you mean 'Europe/London'"),
        ("Europe", "unknown time zone 'Europe'"),
        ("../etc/passwd", r"unknown time zone '\.\./etc/passwd'"),
        ("", "unknown time zone ''"),
    ],
)
def test_unknown_time_zone_is_refused_with_the_nearest_one(name, message):
    with pytest.raises(UserError, match=message):
        cron.zone(name)
