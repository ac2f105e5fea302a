"""The wall clock of a name server and broker is set a day ahead, a day back, four days ahead, while clients are at work.

What is a span (locks, held pulls, registrations) is measured on the monotonic clock and notices nothing. Store times
never go back within a log. Retention believes the clock. docs/hard-times.md has the table.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_rig.stepped_clock import DAY_S, SteppedClock
from durability_rig.broker_process import BrokerProcess
from durability_rig.pages import FREE_PORT
from harness import gantrymq, route_of
from harness.probe import request

from gantrymq.client import Admin, Producer, PullConsumer, PullStatus
from gantrymq.model.message import Message, ReceivedMessage
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

TOPIC = "Stepped"
SENDS = 50
SCAN_MS = 100
SCANS = 10
HOLD_S = 2.0
LATE_S = 5.0
LOCK_BATCH_MQ = 41
SETTINGS = {**FREE_PORT, "scanNotActiveBrokerInterval": SCAN_MS}
NEAR_MS = 60_000

AHEAD_AND_BACK = pytest.mark.parametrize("days", [1, -1], ids=["ahead", "back"])


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    """Wall time of the brokers of a test."""
    return SteppedClock(tmp_path)


@pytest.fixture
def broker(clock: SteppedClock, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A name server and a broker with that clock; in order to the end."""
    with start(clock, tmp_path) as broker:
        asyncio.run(make_topic(broker))
        yield broker
        assert broker.terminate() == 0, broker.errors
        assert "Traceback" not in broker.errors


def start(clock: SteppedClock, tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "store", tmp_path / "processes", SETTINGS, environ=clock.environ)


@AHEAD_AND_BACK
def test_messages_go_on_and_store_times_never_go_back(
    broker: BrokerProcess, clock: SteppedClock, tmp_path: Path, days: int
) -> None:
    async def work(namesrv: str, first: int) -> int:
        """Send on both sides of a step there and of one back; returns how many lie in the queue."""
        async with Producer("stepped", namesrv) as producer:
            for step_s in (days * DAY_S, 0):
                await send(producer, SENDS)
                clock.step_to(step_s)
                await send(producer, SENDS)
        messages = await read(namesrv)
        assert len(messages) == first + 4 * SENDS
        times = [message.store_timestamp for message in messages]
        assert times == sorted(times)
        before, after, back = times[first + SENDS - 1], times[first + SENDS], times[-1]
        if days > 0:
            assert abs(after - before - DAY_S * 1000) < NEAR_MS  # the broker did see the step
            assert back == times[first + 3 * SENDS - 1]  # and stays there until the clock has come so far
        else:
            assert after == before
            assert abs(back - clock.now_ms()) < NEAR_MS
        await assert_found_by_time(namesrv, messages)
        return len(messages)

    count = asyncio.run(work(broker.namesrv(), 0))
    broker.kill()
    with start(clock, tmp_path) as again:
        if days > 0:  # the clock is true again, the log's end is a day ahead
            messages = asyncio.run(read(again.namesrv()))
            asyncio.run(one_more(again.namesrv()))
            assert asyncio.run(read(again.namesrv()))[-1].store_timestamp == messages[-1].store_timestamp
        else:
            assert asyncio.run(work(again.namesrv(), count)) == count + 4 * SENDS
        assert again.terminate() == 0
    with start(clock, tmp_path) as broker_for_the_fixture:
        broker.__dict__.update(broker_for_the_fixture.__dict__)


async def make_topic(broker: BrokerProcess) -> None:
    async with Admin(broker.namesrv()) as admin:
        (master,) = await admin.masters()
        await admin.create_topic(master, TopicConfig(TOPIC, read_queues=1, write_queues=1))


async def send(producer: Producer, count: int) -> None:
    for number in range(count):
        await producer.send(Message(TOPIC, b"%d" % number))


async def one_more(namesrv: str) -> None:
    async with Producer("stepped", namesrv) as producer:
        await send(producer, 1)
