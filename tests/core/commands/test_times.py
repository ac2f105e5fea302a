"""Times in the forms that options accept."""

from datetime import datetime

import click
import pytest
from click.testing import CliRunner

from gantrymq.commands.times import LATER_TIMES, read_time_ms
from gantrymq.world.real import RealClock

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "away_ms"),
    [("-10m", -600_000), ("-1500ms", -1500), ("-2h", -7_200_000), ("-1d", -86_400_000), ("+30s", 30_000)],
)
def test_a_time_away_from_now(text, away_ms):
    assert read_time_ms(text, NOW_MS) == NOW_MS + away_ms


def test_now_is_the_clocks_where_nothing_is_said():
    assert abs(read_time_ms("-1h") - (RealClock().now_ms() - 3_600_000)) < 60_000


def test_longer_ago_than_there_are_times_is_the_beginning():
    assert read_time_ms("-999999999999d", NOW_MS) == 0


def test_milliseconds_and_local_times():
    assert read_time_ms("1800000000000") == NOW_MS
    assert read_time_ms("2026-11-21 10:00:00") == datetime(2026, 11, 21, 10).timestamp() * 1000


@pytest.mark.parametrize("text", ["-10", "-10 m", "10m", "-10y", "-m", "--10m", "-١m", "", "yesterday"])
def test_anything_else_is_refused_with_what_is_expected(text):
    with pytest.raises(click.BadParameter, match="is not a time; expected one such as .* or -10m for ten minutes ago"):
        read_time_ms(text)


def test_an_option_of_times_to_come_has_examples_of_those():
    with pytest.raises(click.BadParameter, match=r"expected one such as .*, or \+10m for in ten minutes"):
        read_time_ms("soon", times=LATER_TIMES)


@pytest.mark.parametrize("words", [("--at", "-10m"), ("--at=-10m",)])
def test_the_command_line_takes_it_as_a_value(words):
    @click.command()
    @click.option("--at")
    def command(at):
        click.echo(read_time_ms(at, NOW_MS))

    assert CliRunner().invoke(command, words).stdout == f"{NOW_MS - 600_000}\n"
