"""Pulls: results and waiting. Refusals are in test_pull_refusals.py."""

from __future__ import annotations

import pytest
from broker_desk import pull_ext, records, run_broker

from gantrymq.broker.consuming import held_pulls
from gantrymq.plugins import Plugins


@pytest.fixture
def tagged(plugins):
    """The memory store and the real tag filter."""
    filters = pytest.importorskip("gantrymq_filter_tag.filter")
    return Plugins(stores=plugins.stores, filters={"TAG": filters.TagFilter})


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "code", "remark", "following"),
    [
        (0, 0, "FOUND", 3),
        (2, 0, "FOUND", 3),
        (3, 19, "OFFSET_OVERFLOW_ONE", 3),
        (4, 21, "OFFSET_OVERFLOW_BADLY", 3),
    ],
)
def test_where_a_pull_stands_in_its_queue(broker, offset, code, remark, following):
    async def main(desk):
        for _ in range(3):
            await desk.send("T")
        answer = await desk.pull("T", offset)
        assert (answer.code, answer.remark) == (code, remark)
        assert answer.ext == {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(following),
            "minOffset": "0",
            "maxOffset": "3",
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        assert [record.queue_offset for record in records(answer)] == list(range(offset, 3))

    broker(main)


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21)])
def test_an_empty_queue_has_nothing_at_zero_and_moves_others_there(broker, offset, code):
    async def main(desk):
        await desk.send("T", queue_id=1)
        answer = await desk.pull("T", offset)
        assert answer.code == code
        assert answer.remark == "NO_MESSAGE_IN_QUEUE"
        assert answer.ext["nextBeginOffset"] == "0"

    broker(main)


def test_no_more_messages_come_than_asked_for(broker):
    async def main(desk):
        for _ in range(5):
            await desk.send("T")
        answer = await desk.pull("T", 1, maxMsgNums="2")
        assert ([record.queue_offset for record in records(answer)], answer.ext["nextBeginOffset"]) == ([1, 2], "3")

    broker(main)


@pytest.mark.parametrize(("flag", "committed"), [("5", 1), ("4", None)])
def test_the_commit_bit_stores_the_offset_that_comes_along(broker, flag, committed):
    async def main(desk):
        await desk.send("T")
        await desk.pull("T", sysFlag=flag, commitOffset="1")
        assert desk.tables.offsets.table.get("T@CG", {}).get(0) == committed

    broker(main)


def test_messages_of_other_tags_are_passed_over(tagged):
    async def main(desk):
        for tag in "abab":
            await desk.send("T", tag.encode(), properties=f"TAGS\x01{tag}\x02")
        answer = await desk.pull("T", subscription="b")
        assert [bytes(record.body) for record in records(answer)] == [b"b", b"b"]
        answer = await desk.pull("T", subscription="c")
        assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "4")

    run_broker(tagged, main)


# --- waiting --------------------------------------------------------------------------------------------------------


def test_a_held_pull_is_answered_by_the_next_arrival(broker):
    async def main(desk):
        await desk.send("T", b"first")
        held = desk.later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(3)
        assert not held.done()
        await desk.peer().send("T", b"second")
        answer = await held
        assert (answer.code, [bytes(record.body) for record in records(answer)]) == (0, [b"second"])
        assert desk.clock.monotonic() < 3.1

    broker(main)


def test_a_held_pull_that_nothing_comes_for_is_answered_in_time(broker):
    async def main(desk):
        await desk.send("T")
        before = desk.clock.monotonic()
        answer = await desk.pull("T", 1, wait_s=15)
        assert answer.code == 19
        assert 15 <= desk.clock.monotonic() - before < 16.1

    broker(main)


def test_only_arrivals_of_its_tags_end_a_hold(tagged):
    async def main(desk):
        await desk.send("T", properties="TAGS\x01a\x02")
        held = desk.later(11, pull_ext("T", 1, wait_s=15, subscription="b"))
        other = desk.peer()
        await other.send("T", properties="TAGS\x01a\x02")
        await desk.clock.sleep(1)
        assert not held.done()
        await other.send("T", properties="TAGS\x01b\x02")
        answer = await held
        assert [record.queue_offset for record in records(answer)] == [2]

    run_broker(tagged, main)


def test_at_its_end_a_hold_moves_past_what_did_not_match(tagged):
    async def main(desk):
        await desk.send("T", properties="TAGS\x01a\x02")
        held = desk.later(11, pull_ext("T", 1, wait_s=15, subscription="b"))
        await desk.peer().send("T", properties="TAGS\x01a\x02")
        answer = await held
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")

    run_broker(tagged, main)


@pytest.mark.parametrize("wait", [{"sysFlag": "4"}, {"suspendTimeoutMillis": "0"}])
def test_a_pull_that_may_not_be_held_is_answered_at_once(broker, wait):
    async def main(desk):
        await desk.send("T")
        before = desk.clock.monotonic()
        assert (await desk.pull("T", 1, wait_s=15, **wait)).code == 19
        assert desk.clock.monotonic() - before < 0.1

    broker(main)


def test_without_long_polling_a_hold_is_short(broker):
    async def main(desk):
        await desk.send("T")
        before = desk.clock.monotonic()
        assert (await desk.pull("T", 1, wait_s=15)).code == 19
        assert 0.5 <= desk.clock.monotonic() - before < 0.6

    broker(main, longPollingEnable=False, shortPollingTimeMills=500)


def test_a_pull_beyond_those_that_may_be_held_is_answered_at_once(broker, monkeypatch):
    monkeypatch.setattr(held_pulls, "MAX_HOLDS_OF_CONNECTION", 1)

    async def main(desk):
        await desk.send("T")
        held = desk.peer().later(11, pull_ext("T", 1, wait_s=15))
        greedy = desk.peer()
        first = greedy.later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(1)
        before = desk.clock.monotonic()
        answer = await greedy.later(11, pull_ext("T", 1, wait_s=15))
        assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
        assert desk.clock.monotonic() - before < 0.1
        await desk.send("T")
        assert [(await each).code for each in (held, first)] == [0, 0]

    broker(main)


def test_a_lost_connection_takes_its_holds_along(broker):
    async def main(desk):
        await desk.send("T")
        gone = desk.peer()
        held = gone.later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(1)
        await gone.client.close()
        await desk.clock.sleep(1)
        assert held.exception() is not None
        await desk.send("T")  # wakes no pull, and nothing fails

    broker(main)
