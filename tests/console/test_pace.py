"""The time between refreshes: as long as pages are few it is 5 s; many of them take a bounded share of the time."""

from __future__ import annotations

import attrs
import pytest
from polling import wait_until

from gantrymq.errors import CallTimeout
from gantrymq_console.web.pace import LEAST_S, MOST_S, Pace
from gantrymq_console.web.responses import DUE


class Used:
    """The CPU time that a test says is used."""

    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


def refresh(pace, used, now_s, took_s, due_s):
    with pace.working(lambda: now_s):
        used.s += took_s
    pace.note(now_s, due_s)


def simulated(tabs, pages, cost_s, seconds=900.0):
    """Return the pace after *seconds* with tabs that do as they are told, and the last minutes' load and requests/s."""
    used = Used()
    pace, now, last, made_at = Pace(used), 0.0, [], {}
    due = [LEAST_S * number / tabs for number in range(tabs)]
    while (now := min(due)) < seconds:
        tab = due.index(now)
        page = tab % pages
        took_s = 0.0
        if now - made_at.get(page, -MOST_S) >= pace.period_s - 1:
            made_at[page], took_s = now, cost_s
        due_s = max(1.0, pace.period_s - (now - made_at[page]))
        refresh(pace, used, now, took_s, due_s)
        last += [took_s] if now > seconds - 300 else []
        due[tab] = now + due_s
    return pace.period_s, sum(last) / 300, len(last) / 300


@pytest.mark.parametrize(
    ("tabs", "pages", "cost_s", "period"),
    [
        (5, 5, 0.004, (5, 5)),
        (30, 1, 0.008, (5, 5)),
        (100, 1, 0.008, (9, 13)),
        (100, 25, 0.003, (14, 18)),
        (100, 25, 0.006, (28, 34)),
    ],
)
def test_the_time_between_refreshes_grows_with_what_they_take(tabs, pages, cost_s, period):
    found, load, per_s = simulated(tabs, pages, cost_s)
    assert period[0] <= found <= period[1]
    assert load <= 0.006 and per_s <= 11


def test_it_has_a_limit_and_shrinks_again():
    used = Used()
    pace = Pace(used)
    for number in range(1000):
        refresh(pace, used, number / 10, 0.2, 5.0)
    assert pace.period_s == MOST_S
    refresh(pace, used, 1000.0, 2.0, 5.0)  # one page alone, however long it takes
    assert LEAST_S < pace.period_s < 12
    refresh(pace, used, 1100.0, 0.0, 5.0)
    assert pace.period_s == LEAST_S


def test_time_of_refreshes_at_the_same_time_counts_once_and_waiting_does_not():
    used = Used()
    pace = Pace(used)
    used.s = 7.0  # before
    with pace.working(lambda: 1.0):
        with pace.working(lambda: 1.0):
            used.s += 0.03
        used.s += 0.02
    used.s += 9.0  # of something else
    with pace.working(lambda: 2.0):
        pass
    assert pace._took_s == pytest.approx(0.05 * LEAST_S)


def test_a_refresh_that_fails_ends():
    pace = Pace(Used())
    with pytest.raises(ValueError), pace.working(lambda: 1.0):
        raise ValueError
    assert pace._under_way == 0


def test_what_is_older_than_a_minute_does_not_count():
    used = Used()
    pace = Pace(used)
    for number in range(20_000):
        refresh(pace, used, number / 1000, 0.001, 5.0)
    assert len(pace._noted) <= 8192
    for number in range(3):
        pace.note(1000.0 + number, 5.0)
    assert pace.period_s == LEAST_S and pace._took_s == pytest.approx(0, abs=1e-6)


def test_tabs_that_were_closed_long_ago_do_not_count():
    used = Used()
    pace = Pace(used)
    for number in range(1000):
        refresh(pace, used, number / 10, 0.02, 5.0)
    assert pace.at(100.0) == pace.period_s > 30
    assert pace.at(100.0 + MOST_S + 1) == LEAST_S


def test_a_page_that_fails_is_told_when_to_ask_again(visitor, monkeypatch):
    async def failing(_context):
        raise CallTimeout("no answer")

    for page in (each for part in visitor.console.sections for each in part.pages if each.path == "/topics"):
        monkeypatch.setattr(visitor.app, "_fixed", {"/topics": visitor.app._page(attrs.evolve(page, show=failing))})
    pace = visitor.console.refreshes.pace
    for _ in range(1000):
        pace.note(visitor.console.world.clock.monotonic(), MOST_S)
    found = visitor.request("GET", "/topics?part=live")
    assert found.status_code == 504 and float(found.headers[DUE]) == MOST_S


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_of_the_clock_does_not_change_the_age_of_a_view(visitor, unchanged, monkeypatch, step_ms):
    visitor.request("GET", "/topics?part=live")
    clock = visitor.console.world.clock
    real = clock.now_ms
    monkeypatch.setattr(type(clock), "now_ms", lambda _: real() + step_ms)
    found = visitor.request("GET", "/topics?part=live")
    assert int(found.headers["age"]) <= 2 and float(found.headers[DUE]) >= LEAST_S - 2


def test_a_page_is_told_when_to_ask_again(visitor, unchanged):
    first = visitor.request("GET", "/topics?part=live")
    assert 1 <= float(first.headers[DUE]) <= LEAST_S
    visitor.console.refreshes.pace.period_s = 20.0
    again = visitor.request("GET", "/topics?part=live", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert float(again.headers[DUE]) <= 20


@pytest.mark.slow
def test_the_age_of_a_view_grows_with_it_and_is_said(visitor):
    pace, clock = visitor.console.refreshes.pace, visitor.console.world.clock

    def ask():
        for _ in range(1000):  # as by many pages
            pace.note(clock.monotonic(), MOST_S)
        return visitor.request("GET", "/topics?part=live")

    first = ask()
    visitor.running.create_topic("Added", 1)
    wait_until(lambda: int(ask().headers["age"]) >= 1, "an age")
    found = ask()
    assert found.text == first.text and float(found.headers[DUE]) <= MOST_S - 1
    wait_until(lambda: "Added" in visitor.get("/topics").text, "a new view for a visitor who opens the page")


def test_responses_that_visitors_do_not_share_say_nothing(visitor):
    assert DUE not in visitor.request("GET", "/topics").headers
