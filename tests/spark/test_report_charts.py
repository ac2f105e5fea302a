"""Charts and pages show names as they are, whatever is in them, and lines only where there are messages."""

import re
from datetime import UTC, datetime
from importlib.util import find_spec

import click
import pytest

from gantrymq.cli import main
from gantrymq_spark.jobs.audit_findings import dead_letter
from gantrymq_spark.jobs.audit_summary import ADVICE
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.stats import StatsSummary
from gantrymq_spark.report.charts import MAX_BARS, STEP_SECONDS, bars, lines
from gantrymq_spark.report.page import Page, Section, Table, decimals, span, write_page
from gantrymq_spark.report.pages import stats_page
from gantrymq_store_tools.findings import counted

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


def labels_of(chart):
    """The texts of a chart in the order in which it has them."""
    return re.findall(r"<text[^>]*>([^<]*)<", chart)


def test_points_of_one_time_are_bars_with_the_time_in_the_title():
    at = int(datetime(2026, 1, 3, 12, tzinfo=UTC).timestamp()) * 1_000_000
    texts = labels_of(lines({"Orders": [(at, 1)], "Bills": [(at, 2)], "none": []}, "messages in an hour", 3600))
    assert "messages in an hour, 2026-01-03 12:00 UTC" in texts
    assert {"Orders", "Bills"} <= {*texts}
    assert not any(label.startswith("20") for label in texts)


def test_a_time_span_is_told_once_if_it_has_one_second():
    assert span(1_000_000, 1_999_999) == "at 1970-01-01 00:00:01 UTC"
    assert span(1_000_000, 2_000_000) == "1970-01-01 00:00:01 UTC to 1970-01-01 00:00:02 UTC"


def test_bars_of_bytes_are_in_the_order_of_bytes():
    topics = [{"topic": f"T{n}", "messages": 9 - n, "bytes": size} for n, size in enumerate((10, 30, 20))]
    counts = dict.fromkeys(("topics", "queues", "tags", "keys", "producers"), 3)
    figures = StatsSummary(topics[0], topics, [], [], [], [], None, counts, "hour", {}, [])
    (section,) = (each for each in stats_page(Input(store="/s"), figures, None).sections if each.title == "Topics")
    assert [text for text in labels_of(section.chart) if text.startswith("T")] == ["T0", "T2", "T1"]  # from below
    assert [row[0] for row in section.table.rows] == ["T0", "T1", "T2"]


def test_cells_of_tables_do_not_break_inside_words(tmp_path):
    write_page(tmp_path / "page.html", Page("p", "v", True, [], []))
    style = (tmp_path / "page.html").read_text().partition("</style>")[0]
    assert "anywhere" not in style and "break-all" not in style
    assert re.search(r"td \{ overflow-wrap: break-word; max-width: \d+rem; \}", style)  # long names still break


def test_axes_count_in_whole_messages_and_write_large_numbers_short():
    assert {label for label in labels_of(bars(["a"], [1], "messages")) if label[:1].isdigit()} == {"0", "1"}
    assert {label for label in labels_of(lines({"a": [(0, 1), (1, 2)]}, "m", 3600)) if "." in label} == set()
    assert "0.00005" in labels_of(lines({"a": [(0, 0.00025)]}, "messages/s", 3600))
    for chart in (bars(["a"], [10**13], "bytes"), lines({"a": [(0, 2.5e8), (3_600_000_000, 1e8)]}, "bytes/s", 3600)):
        assert not any("1e" in label for label in labels_of(chart))
        assert any(re.fullmatch(r"\d+ [MT]", label) for label in labels_of(chart)), labels_of(chart)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.0000023, "0.0000023"),
        (0.0049, "0.0049"),
        (0.01, "0.01"),
        (1234.5, "1,234.50"),
        (-0.002, "-0.002"),
    ],
)
def test_a_small_rate_is_not_written_as_nothing(value, text):
    assert decimals(value) == text


def test_a_chart_whose_older_points_are_left_out_says_so():
    row = {"messages": 1, "bytes": 1, "topic": "Orders"}
    counts = dict.fromkeys(("topics", "queues", "tags", "keys", "producers"), 1)
    figures = (row, [row], [], [], [], [], None, counts, "minute", {"Orders": [(60_000, 1, 1)]}, [])
    said = {
        left_out: stats_page(Input(store="/s"), StatsSummary(*figures, left_out), None).sections[0].sentences
        for left_out in (0, 1, 4321)
    }
    assert [len(sentences) for sentences in said.values()] == [1, 2, 2]
    assert said[1][1] == "The chart has the newest 1 point; 1 older point is left out."
    assert said[4321][1] == "The chart has the newest 1 point; 4,321 older points are left out."
