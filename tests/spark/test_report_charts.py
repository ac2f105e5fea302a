"""Charts and pages show names as they are, whatever is in them, and lines only where there are messages."""

import re
from importlib.util import find_spec

import click
import pytest

from gantrymq.cli import main
from gantrymq_spark.jobs.audit_messages import dead_letter
from gantrymq_spark.jobs.audit_summary import ADVICE
from gantrymq_spark.report.charts import MAX_BARS, STEP_SECONDS, bars, lines
from gantrymq_spark.report.page import Page, Section, Table, write_page
from gantrymq_spark.report.texts import counted

NAMES = ["a$x_1$/0", r"$\frac$", "<b>&", "%DLQ%g", "_under", "主题", "x" * 200]


def test_bars_show_names_as_they_are():
    chart = bars(NAMES, range(len(NAMES)), "messages")
    assert chart.startswith("<svg")
    for text in ("a$x_1$/0", r"$\frac$", "&lt;b&gt;&amp;", "%DLQ%g", "_under", "主题", "x" * 27 + "…" + "x" * 20):
        assert f">{text}<" in chart
    assert ">n24<" in bars([f"n{n}" for n in range(99)], range(99), "m")
    assert f">n{MAX_BARS}<" not in bars([f"n{n}" for n in range(99)], range(99), "m")
    assert bars([], [], "messages") == ""


def test_lines_show_names_as_they_are():
    chart = lines({name: [(0, 1), (3_600_000_000, 2)] for name in NAMES}, "messages", 3600)
    for text in ("a$x_1$/0", r"$\frac$", "&lt;b&gt;&amp;", "_under", "主题"):
        assert f">{text}<" in chart
    assert lines({"a": []}, "messages", 3600) == ""


def test_long_names_that_differ_at_their_ends_stay_different():
    names = [f"a-topic-with-a-name-that-is-much-longer-than-its-label/{queue}" for queue in range(8)]
    chart = bars(names, [1] * 8, "messages")
    assert len(set(re.findall(r">(a-topic[^<]*)<", chart))) == 8


def strokes(chart):
    """How many pieces each line of the chart has, and how many points it marks."""
    paths = re.findall(r'<path d="([^"]*)" clip-path[^>]*stroke: #(?:1f77b4|ff7f0e)', chart)
    marks = [len(re.findall("<use ", group)) for group in re.findall(r'<g clip-path="[^"]*">(.*?)</g>', chart, re.S)]
    return [path.count("M ") for path in paths], marks


@pytest.mark.parametrize("step", sorted(STEP_SECONDS))
def test_a_line_is_broken_where_steps_have_no_messages(step):
    step_us = STEP_SECONDS[step] * 1_000_000
    with_gaps = [(at * step_us, 5) for at in (0, 1, 2, 26, 27, 50)]
    chart = lines({"gaps": with_gaps, "whole": [(at * step_us, 1) for at in range(51)]}, "messages", STEP_SECONDS[step])
    pieces, marks = strokes(chart)
    assert sorted(pieces) == [1, 3]
    assert sorted(marks) == [6, 51]  # the last point after a gap is marked, though it makes no line


def test_the_unit_is_above_a_chart_whose_labels_leave_no_room_beside_it():
    unit = "messages a second, mean of an hour"
    assert unit in lines({"a": [(0, 1)]}, unit, 3600)
    assert unit in bars(["x" * 99], [1], unit)


def test_numbers_agree_with_their_nouns():
    assert [counted(number, "message") for number in (0, 1, 2, 2000)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "2,000 messages",
    ]


@pytest.mark.parametrize(("count", "text"), [(1, "1 message; it is in"), (2, "2 messages; they are in")])
def test_the_finding_of_dead_letters_counts_them(count, text):
    assert dead_letter("b", "%DLQ%billing", 0, 7, count).text == f"group billing gave up {text} %DLQ%billing"


@pytest.mark.skipif(
    not (find_spec("gantrymq_admin") and find_spec("gantrymq_store_tools")), reason="other plugins have these commands"
)
def test_every_command_that_advice_names_exists():
    commands = re.findall(r"gantrymq ((?:[a-z]+ ?)+)", " ".join(ADVICE.values()))
    assert "group dlq resend " in commands
    for words in commands:
        command = main
        for word in words.split():
            command = command.get_command(click.Context(command), word)
            assert command is not None, words


def test_a_page_escapes_and_counts_what_it_leaves_out(tmp_path):
    table = Table(("<i>", "n"), [("<u>", 1234), (None, 0.5)], all_rows=70_000, rest="the others are elsewhere")
    page = Page("<b>", "it & that", False, [("<s>", "<q>")], [Section("<h>", ["<p>x"], "<svg/>", table)])
    write_page(tmp_path / "page.html", page)
    text = (tmp_path / "page.html").read_text()
    assert not any(tag in text for tag in ("<b>", "<i>", "<u>", "<s>", "<q>", "<h>", "<p>x"))
    assert "<svg/>" in text
    assert "1,234" in text and "0.50" in text
    assert "These are 2 of 70,000; the others are elsewhere." in text
