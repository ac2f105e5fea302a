"""Pages of a history: charts, ranges, the comparison, the table, the file, and the small charts of lists."""

from __future__ import annotations

import asyncio
import csv
import io
import re

import pytest
from console_visitor import Visitor
from manual_clock import ManualClock
from memory_history import COARSE_MS, FINE_MS, KEPT_MS, MemoryHistory

from gantrymq.client import GroupConfig
from gantrymq_console.access.users import Role
from gantrymq_console.history.reading import DAY_MS, HOUR_MS, KINDS, RANGES, Curve, Mark, Window
from gantrymq_console.history.subject import subject_history
from gantrymq_console.web.charts import UNITS, chart, scale_of, sparkline

MIN_MS = 60_000
HOSTILE = "=cmd()<b>\u202e"


@pytest.fixture
def past(gantrymq_broker):
    """A history that begins 30 days ago, in which each sample of the group billing is the number of its minute."""
    made = MemoryHistory(gantrymq_broker.cluster.world.clock.now_ms())
    made.put("group", "billing", "lag", lambda at: None if is_gap(made, at) else at // MIN_MS % 1000)
    made.put("group", "billing", "out", lambda at: None if is_gap(made, at) else 2.5)
    made.put("cluster", "", "in", lambda at: 40.0)
    return made


def is_gap(past, at_ms):
    return past.now_ms - 30 * MIN_MS < at_ms < past.now_ms - 20 * MIN_MS


@pytest.fixture
def visitor(gantrymq_broker, past):
    with Visitor(gantrymq_broker, past=past) as found:
        yield found


@pytest.fixture
def group(visitor):
    """The path of the page of a group."""

    async def create():
        await visitor.cluster.admin.create_group_in(GroupConfig("billing"))

    visitor.running.run(create())
    return "/groups/billing"


def lines_of(html, word="curve"):
    """Return the points of each line of the first chart."""
    image = re.search(r'<svg class="(?:chart|spark)".*?</svg>', html, re.DOTALL)[0]
    found = re.findall(rf'<polyline class="{word}" points="([^"]*)"', image)
    return [[tuple(map(float, point.split(","))) for point in line.split()] for line in found]


def test_a_gap_is_a_gap_in_the_image_and_null_in_json(visitor, group, past):
    first, second = lines_of(visitor.get(group).response.text)
    assert first[0][0] == 0 and 340 <= first[-1][0] <= 361 and 464 <= second[0][0] <= 485 and second[-1][0] >= 700
    found = visitor.api("/history?kind=group&name=billing")["data"]
    lag = dict(zip(found["times"], found["curves"][0]["values"], strict=True))
    assert len(lag) == 360 and found["step_ms"] == FINE_MS
    assert [value is None for at, value in lag.items() if at <= past.now_ms] == [
        is_gap(past, at) for at in lag if at <= past.now_ms
    ]
    assert 0 not in lag.values() or past.now_ms // MIN_MS % 1000 < 60
    assert "Unknown for 10 minutes of the period." in visitor.get(group).response.text


def test_a_caption_says_over_which_period_a_rate_is_an_average(visitor, group):
    assert "Messages out average of 10 seconds 2.5/s now" in visitor.get(group).text
    assert "largest value" not in visitor.get(group).text
    longer = visitor.get(f"{group}?range=7d").text
    assert "Messages out average of 15 minutes" in longer and "largest value of 15 minutes" in longer


@pytest.mark.parametrize("name", RANGES)
def test_each_range_is_a_link_and_has_its_width(visitor, group, past, name):
    visitor.get(group)
    page = visitor.get(f"{group}?range={name}&compare=on")
    assert page.link("6 hours").endswith(f"{group}?range=6h&compare=on")
    assert page.link("Without comparison").endswith(f"{group}?range={name}")
    assert lines_of(page.response.text)
    found = visitor.api(f"/history?kind=group&name=billing&range={name}")["data"]
    assert RANGES[name] <= found["end_ms"] - found["begin_ms"] <= RANGES[name] + found["step_ms"]
    assert found["end_ms"] > past.now_ms and len(found["times"]) <= 720
    lag = next(each["values"] for each in found["curves"] if each["word"] == "lag")
    known = [value for value in lag if value is not None]
    assert len(known) >= 290 and max(known) < 1000


def test_other_ranges_and_kinds_are_refused(visitor, group):
    assert visitor.get(f"{group}?range=2h").status == 400
    assert visitor.get("/history?kind=nonsense").status == 400
    assert visitor.get("/history?view=nonsense").status == 400
    assert visitor.get("/history/export?compare=perhaps").status == 400


def test_the_comparison_is_the_same_time_one_day_earlier(visitor, group, past):
    found = visitor.api("/history?kind=group&name=billing&compare=on")["data"]
    assert found["earlier_ms"] == DAY_MS
    for at, now, before in zip(
        found["times"], found["curves"][0]["values"], found["earlier"][0]["values"], strict=True
    ):
        assert now is None or now == at // MIN_MS % 1000
        coarse = (at - DAY_MS) // COARSE_MS * COARSE_MS
        assert before == coarse // MIN_MS % 1000, "the kept step around it"
    page = visitor.get(f"{group}?compare=on")
    assert "The same time one day earlier" in page.text and lines_of(page.response.text, "earlier")
    assert not lines_of(visitor.get(group).response.text, "earlier")


def test_longer_ranges_are_compared_with_the_period_before(visitor, group):
    page = visitor.get(f"{group}?range=7d&compare=on")
    assert "The 7 days before" in page.text and lines_of(page.response.text, "earlier")
    page = visitor.get(f"{group}?range=30d&compare=on")
    assert "Nothing is known of the period to compare with." in page.text, "samples are kept for 30 days"
    assert lines_of(page.response.text) and not lines_of(page.response.text, "earlier")


def test_a_script_gets_new_points_only(visitor, monkeypatch):
    noted = []
    monkeypatch.setattr(visitor.console.refreshes.pace, "note", lambda *given: noted.append(given))
    whole = visitor.api("/history?kind=group&name=billing")["data"]
    after = whole["times"][-1] - MIN_MS
    found = visitor.api(f"/history?kind=group&name=billing&after={after}&compare=on")["data"]
    assert found["times"][0] == after and 7 <= len(found["times"]) <= 9
    assert len(found["earlier"][0]["values"]) == len(found["times"])
    assert len(noted) == 1, "it counts as a refresh does, so that open pages ask less often if there are many"
    late = visitor.api(f"/history?kind=group&name=billing&after={whole['end_ms'] + DAY_MS}")["data"]
    assert len(late["times"]) == 1, "after the end: the last point"
    assert len(visitor.api("/history?kind=group&name=billing&after=1")["data"]["times"]) == 360


def test_a_refresh_reads_no_history_and_has_no_chart(visitor, group, past):
    visitor.get(group)
    visitor.cluster.forget()
    past.reads.clear()
    page = visitor.get(f"{group}?part=live").response.text
    assert 'id="history"' in page and "<svg" not in page and past.reads == []


def test_the_table_has_a_row_for_each_time_and_says_what_is_unknown(visitor, past):
    page = visitor.get("/history?kind=group&name=billing&view=table&compare=on")
    assert "A value for each 10 seconds, the newest first" in page.text and "1 to 50 of 360" in page.text
    assert "Lag: messages not consumed yet, before" in page.text
    assert page.response.text.count('<tr><th scope="row">') == 50
    gap = visitor.get("/history?kind=group&name=billing&view=table&start=150&rows=10")
    assert "151 to 160 of 360" in gap.text
    rows = re.findall(r'<tr><th scope="row">.*?</tr>', gap.response.text)
    assert len(rows) == 10 and all(row.count("unknown") == 5 for row in rows)
    assert visitor.get("/history?kind=group&name=billing&view=table&start=100000").status == 200


def rows_of(response):
    assert response.headers["content-disposition"].endswith('.csv"'), response.text
    return list(csv.reader(io.StringIO(response.text)))


def test_the_file_has_the_numbers_of_the_table(visitor, past):
    head, *rows = rows_of(visitor.request("GET", "/history/export?kind=group&name=billing&compare=on"))
    assert head[:4] == ["time", "time_ms", "lag", "lag_before"] and head[-2:] == ["dead_letters", "dead_letters_before"]
    assert len(rows) == 360
    for time, ms, lag, _before, *_others, dead_letters, _dead_before in rows:
        assert time.endswith("Z") and time[:4].isdecimal()
        if int(ms) <= past.now_ms:
            assert lag == ("" if is_gap(past, int(ms)) else str(int(ms) // MIN_MS % 1000))
        assert dead_letters == "", "unknown is empty, not 0"


def test_a_hostile_name_is_neither_code_nor_a_formula(visitor, past):
    past.put("group", HOSTILE, "lag", lambda at: 1.0)
    past.events = [Mark(past.now_ms - MIN_MS, "group_new", "group", HOSTILE)]
    page = visitor.get("/history", params={"kind": "group", "name": HOSTILE})
    assert "<b>" not in page.response.text and "Group =cmd()<b> U+202E appeared" in page.text
    response = visitor.request("GET", "/history/export", params={"kind": "group", "name": HOSTILE})
    assert 'filename="group-cmdb-1h.csv"' in response.headers["content-disposition"]
    assert not any(cell[:1] in ("=", "+", "-", "@") for row in rows_of(response) for cell in row)


def test_events_are_lines_and_sentences_with_links(visitor, group, past):
    past.events = [
        Mark(past.now_ms - 50 * MIN_MS, "elected", "broker", "broker-a"),
        Mark(past.now_ms - 40 * MIN_MS, "setting", "broker", "broker-a", {"key": "k<", "old": "1", "new": "2"}),
        Mark(past.now_ms - 30 * MIN_MS, "group_silent", "group", "billing"),
        Mark(past.now_ms - 20 * MIN_MS, "group_silent", "group", "elsewhere"),
    ]
    page = visitor.get(group)
    assert page.link("The last member of group billing left").endswith("/groups/billing")
    assert page.link("broker-a got another master").endswith("/brokers/broker-a")
    assert "2 events in this period" in page.text and "elsewhere" not in page.text
    x = [int(each) for each in re.findall(r'<line class="event" x1="(\d+)"', page.response.text)[:2]]
    assert 110 <= x[0] <= 125 and 355 <= x[1] <= 365
    broker = visitor.get("/history?kind=broker&name=broker-a")
    assert "Setting k< of broker broker-a changed from 1 to 2" in broker.text and "2 events" in broker.text
    assert "3 events" not in visitor.get("/history").text and "2 events" in visitor.get("/history").text
    other = visitor.get("/history?kind=topic&name=Orders")
    assert "1 event in this period" in other.text and "Setting" not in other.text


def test_only_the_newest_events_are_shown(visitor, past):
    past.events = [Mark(past.now_ms - 150_000 + each * 1000, "elected", "broker", f"b{each}") for each in range(103)]
    page = visitor.get("/history?kind=cluster")
    assert "100 events in this period" in page.text and "3 older events are not shown." in page.text
    assert "b102 got" in page.text and "b2 got" not in page.text


def test_pages_say_that_there_is_no_history(gantrymq_broker):
    with Visitor(gantrymq_broker, Role.VIEWER) as visitor:
        for path in ("/", "/brokers/broker-a", "/history", "/history?view=table"):
            assert "The console was started without a history." in visitor.get(path).text, path
        assert visitor.api("/history")["data"]["is_off"] is True
        assert visitor.get("/topics").status == 200 and "last hour" not in visitor.get("/topics").text
        assert visitor.request("GET", "/history/export").status_code == 400


def test_pages_say_why_a_history_cannot_be_read(visitor, past):
    past.failure = "The file history.sqlite cannot be read: disk I/O error."
    for path in ("/", "/brokers/broker-a", "/history", "/history?view=table"):
        page = visitor.get(path)
        assert page.status == 200
        assert "The history cannot be read now. The file history.sqlite cannot be read: disk I/O error." in page.text
    assert "disk I/O error" in visitor.request("GET", "/history/export").text
    assert visitor.get("/topics").status == 200


def test_a_history_that_cannot_be_read_names_no_source_of_curves(visitor, past):
    past.origin = "10.0.0.9:9090"
    assert "Curves are from Prometheus at 10.0.0.9:9090" in visitor.get("/history").text
    visitor.cluster.forget()
    past.failure = "Prometheus at 10.0.0.9:9090 cannot be read: Connection refused."
    for path in ("/", "/history"):
        page = visitor.get(path).text
        assert past.failure in page and "Curves are from" not in page, path


def test_what_is_wrong_with_keeping_a_history_is_said_beside_it(visitor, past):
    past.problem = "The disk of the history is full."
    page = visitor.get("/history")
    assert "The disk of the history is full." in page.text and "<svg" in page.response.text


def test_a_young_history_says_since_when_it_knows(visitor, past):
    past.since_ms = past.now_ms - 20 * MIN_MS
    assert "The history begins at" in visitor.get("/history").text
    past.since_ms = past.now_ms - 5_000
    assert "The history has just begun" in visitor.get("/history").text
    past.since_ms = past.now_ms - 10 * HOUR_MS
    assert "The history begins at" not in visitor.get("/history").text
    assert "The history begins at" in visitor.get("/history?range=24h").text
    assert "Nothing is known of this in this period." in visitor.get("/history?kind=topic&name=Nothing").text


def test_a_period_of_which_one_step_is_known_is_not_said_to_be_unknown(visitor, past):
    past.since_ms = past.now_ms - 10 * MIN_MS
    past.put("topic", "Young", "in", lambda at: 4.5 if past.now_ms // HOUR_MS == at // HOUR_MS else None)
    address = "/history?kind=topic&name=Young"
    page = visitor.get(f"{address}&range=30d").text
    assert "So far one value of this period is known, as each value stands for 60 minutes of it" in page
    assert "Nothing is known" not in page
    table = visitor.get(f"{address}&range=30d&view=table").text
    assert "4.5/s" in table and "Nothing is known" not in table
    past.put("topic", "Both", "in", lambda at: 4.5)
    past.put("topic", "Both", "out", {past.now_ms // FINE_MS * FINE_MS: 1.0})
    page = visitor.get("/history?kind=topic&name=Both").text
    assert "One value is known in this period, too few for a chart: Messages out" in page
    assert "Unknown in this period" not in page


def test_a_slow_history_does_not_hold_a_page(past):
    clock = ManualClock(past.now_ms / 1000)

    async def never(*_given):
        clock.advance(10)
        await asyncio.Event().wait()

    past.curves = never
    found = asyncio.run(subject_history(past, clock, "cluster", ""))
    assert found.problem == "The history was not read within 2.5 seconds." and found.is_empty


def test_lists_have_small_charts_whose_x_is_the_time(visitor, past, group):
    """One read for all rows. An hour is as wide as the image, and a gap as wide as it is long."""
    past.put("topic", "Orders", "in", lambda at: None if is_gap(past, at) else 3.0)
    visitor.running.create_topic("Orders", 4)
    past.reads.clear()
    topics = visitor.get("/topics")
    assert past.reads == ["curve_of_each"]
    assert "In, last hour" in topics.text
    assert 'aria-label="Messages in in the last hour: from 3/s to 3/s, last 3/s"' in topics.response.text
    first, second = lines_of(topics.response.text)
    assert first[0][0] == 0 and 45 <= first[-1][0] <= 52 and 62 <= second[0][0] <= 69 and second[-1][0] >= 96
    groups = visitor.get("/groups")
    assert past.reads == ["curve_of_each"] * 2 and lines_of(groups.response.text)


def test_a_young_history_fills_only_its_part_of_a_small_chart():
    window = Window(0, HOUR_MS, MIN_MS)
    (line,) = lines_of(sparkline(Curve("lag", (*[None] * 50, *range(10))), window, '<"x">'))
    assert line[0] == (83.3, 24) and line[-1] == (98.3, 0)
    assert lines_of(sparkline(Curve("lag", (None, 5.0, None)), Window(0, 3 * MIN_MS, MIN_MS), "x")) == [
        [(33.3, 0), (33.3, 0)]
    ]


def test_an_image_has_no_style_and_only_finite_numbers(past):
    async def read():
        return await subject_history(past, ManualClock(past.now_ms / 1000), "group", "billing", "24h", compare=True)

    found = asyncio.run(read())
    for each in found.curves:
        image = chart(found, each)
        assert "style" not in image and "nan" not in image.lower() and "inf" not in image.lower()
    assert set(UNITS) == {word for words in KINDS.values() for word in words}


@pytest.mark.parametrize(
    ("word", "values", "scale"),
    [
        ("lag", [], (0, 1)),
        ("lag", [0.0], (0, 1)),
        ("lag", [1.0, 4761.0], (0, 5000)),
        ("in", [0.031], (0, 0.04)),
        ("in", [1000.0], (0, 1000)),
        ("in", [1e-9], (0, 1e-9)),
        ("dead_letters", [0.0, 3.0], (0, 3)),
        ("dead_letters", [4703.0, 4711.0], (4703 - 4711 / 250, 4711 + 4711 / 250)),
        ("disk", [70.0, 80.0], (68, 82)),
    ],
)
def test_a_scale_holds_all_values(word, values, scale):
    assert scale_of(word, values) == pytest.approx(scale)


def test_a_history_of_thirty_days_is_kept_and_none_before(past):
    assert past.since_ms == past.now_ms - KEPT_MS


def test_chinese_pages_have_charts_too(gantrymq_broker, past):
    with Visitor(gantrymq_broker, language="zh", past=past) as visitor:
        page = visitor.get("/history?kind=group&name=billing&range=24h&compare=on")
        assert "消费组 billing 的历史" in page.text and "一天前的同一时间" in page.text and lines_of(page.response.text)
