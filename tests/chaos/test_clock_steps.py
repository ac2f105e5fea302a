"""The wall clock of a name server and broker steps a day ahead, a day back, and four days ahead under their clients.

Durations (locks, held pulls, registrations) are measured on the monotonic clock and are not affected. Store times never
decrease within a log, except of delayed messages. Retention, delays, invisible times and checks of transactions use the
wall clock. docs/operations/resource-limits.md has the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from chaos_rig.stepped_clock import DAY_S, SteppedClock
from durability_rig.broker_process import BrokerProcess
from durability_rig.pages import FREE_PORT, Pages
from harness import gantrymq, route_of
from harness.probe import request
from polling import until

from gantrymq.client import Client, PullStatus, ReconsumeLater, TransactionState
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.model.topic import TopicConfig

TOPIC = "Stepped"
SENDS = 20
SCAN_MS = 100
SCANS_S = 1.0  # ten scans for silent brokers
HOLD_S, LATE_S = 1.5, 10.0
HOUR_S = 3600
TRIES = 3
LOCK_BATCH_MQ = 41
SETTINGS = {
    **FREE_PORT,
    "scanNotActiveBrokerInterval": SCAN_MS,
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 500,
}
NEAR_MS = 60_000
LOG_FILES = 6
KEPT = 2  # the newest one and the one created in advance
BIG = bytes(range(256)) * 200

there_and_back = pytest.mark.parametrize("days", [1, -1], ids=["ahead", "back"])


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    """Wall time of the brokers of a test."""
    return SteppedClock(tmp_path)


class Server:
    """A name server and broker with a stepped clock."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        ready = process.ready()
        self.namesrv, self.address = str(ready["namesrv"]), str(ready["broker"])

    async def make_topic(self) -> None:
        async with Client(self.namesrv) as client, client.admin as admin:
            await admin.create_topic(self.address, TopicConfig(TOPIC, read_queues=1, write_queues=1))

    async def send(self, count: int, body: bytes = b"x") -> None:
        """Send *count* messages, one after the other, with their numbers as keys."""
        async with Client(self.namesrv) as client, client.producer("stepped", compress_over_bytes=1 << 30) as producer:
            for number in range(count):
                await producer.send(Message(TOPIC, body, keys=f"key{number}"))

    async def read(self) -> list[ReceivedMessage]:
        """All messages of the queue; a gap is an error."""
        found: list[ReceivedMessage] = []
        async with Client(self.namesrv) as client, client.reader(group="stepped-reader") as consumer:
            (queue,) = await consumer.queues(TOPIC)
            begin, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while begin + len(found) < end:
                result = await consumer.pull(queue, begin + len(found))
                assert result.status is PullStatus.FOUND
                found += result.messages
        assert [message.queue_offset for message in found] == list(range(begin, end))
        return found

    def lock(self, client_id: str) -> bool:
        """Acquire or renew the lock of the queue as an orderly consumer; return whether *client_id* holds it."""
        queue = {"topic": TOPIC, "brokerName": "x", "queueId": 0}
        body = json.dumps({"consumerGroup": "stepped-orderly", "clientId": client_id, "mqSet": [queue]}).encode()
        header, answer = request(self.address, LOCK_BATCH_MQ, {}, body)
        assert header["code"] == 0, header
        return len(json.loads(answer)["lockOKMQSet"]) == 1


@contextmanager
def serving(clock: SteppedClock, tmp_path: Path) -> Iterator[Server]:
    """Start it on the test's store; it must exit cleanly unless the test has killed it."""
    with BrokerProcess(tmp_path / "store", tmp_path / "processes", SETTINGS, environ=clock.environ) as process:
        yield Server(process)
        if not process.ended_within(0):
            assert process.terminate() == 0, process.errors
        assert "Traceback" not in process.errors


@there_and_back
def test_messages_go_on_and_store_times_never_go_back(clock: SteppedClock, tmp_path: Path, days: int) -> None:
    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        asyncio.run(server.send(SENDS))
        clock.step_to(days * DAY_S)
        asyncio.run(server.send(SENDS))
        clock.step_to(0)
        asyncio.run(server.send(SENDS))
        before, stepped, after = times_by_third(asyncio.run(server.read()))
        if days > 0:
            assert abs(stepped[0] - before[-1] - DAY_S * 1000) < NEAR_MS  # the broker did see the step
            assert set(after) == {stepped[-1]}  # until the clock has reached that time again
        else:
            assert set(stepped) == {before[-1]}
            assert abs(after[-1] - clock.now_ms()) < NEAR_MS
        server.process.kill()
    clock.step_to(-DAY_S)
    with serving(clock, tmp_path) as server:  # the same after a crash, with a clock that is further back
        asyncio.run(server.send(SENDS))
        messages = asyncio.run(server.read())
        assert len(messages) == 4 * SENDS
        assert {message.store_timestamp for message in messages[3 * SENDS :]} == {after[-1]}


def times_by_third(messages: list[ReceivedMessage]) -> tuple[list[int], list[int], list[int]]:
    """Store times of each third of the messages; none is earlier than its predecessor's."""
    assert len(messages) == 3 * SENDS
    times = [message.store_timestamp for message in messages]
    assert times == sorted(times)
    return times[:SENDS], times[SENDS : 2 * SENDS], times[2 * SENDS :]


@there_and_back
def test_messages_are_found_by_time_and_by_key_on_both_sides_of_a_step(
    clock: SteppedClock, tmp_path: Path, days: int
) -> None:
    async def look(server: Server) -> None:
        times = [message.store_timestamp for message in await server.read()]
        async with Client(server.namesrv) as client, client.reader(group="stepped-reader") as consumer:
            (queue,) = await consumer.queues(TOPIC)
            for asked in (times[0], times[SENDS - 1] + 1, times[SENDS], times[-1]):
                first = next((n for n, stored in enumerate(times) if stored >= asked), len(times))
                assert await consumer.offset_for_timestamp(queue, asked) == first, (asked, times)
        async with Client(server.namesrv) as client, client.admin as admin:
            found = await admin.query_message(TOPIC, "key7", begin_ms=times[0], end_ms=times[-1] + 1)
            assert [message.queue_offset for message in found] == [7, SENDS + 7]

    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        asyncio.run(server.send(SENDS))
        clock.step_to(days * DAY_S)
        asyncio.run(server.send(SENDS))
        asyncio.run(look(server))


def test_a_live_holder_keeps_its_lock(clock: SteppedClock, tmp_path: Path) -> None:
    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        for days in (1, -1):
            assert server.lock("holder")
            assert not server.lock("other")
            clock.step_to(days * DAY_S)
            assert not server.lock("other")
            assert server.lock("holder")
            clock.step_to(0)
            assert not server.lock("other")


def test_routes_stay(clock: SteppedClock, tmp_path: Path) -> None:
    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        assert '"brokerName"' in (route_of(server.namesrv, TOPIC) or "")
        for days in (1, -1):
            clock.step_to(days * DAY_S)
            end, asked = time.monotonic() + SCANS_S, 0
            while time.monotonic() < end:
                assert '"brokerName"' in (route_of(server.namesrv, TOPIC) or "")
                asked += 1
            assert asked > 10
            asyncio.run(server.send(1))


def test_held_pulls_wait_as_long_as_they_were_asked_to(clock: SteppedClock, tmp_path: Path) -> None:
    async def work(server: Server, days: int, end: int) -> None:
        async with (
            Client(server.namesrv) as client,
            client.reader(group="stepped-reader") as consumer,
            client.admin as admin,
        ):
            (queue,) = await consumer.queues(TOPIC)

            async def until_held() -> None:
                while int((await admin.runtime_info(server.address))["pullRequestsHeld"]) < 1:
                    pass

            began = time.monotonic()
            pull = asyncio.create_task(consumer.pull(queue, end, suspend_ms=int(HOLD_S * 1000)))
            await asyncio.wait_for(until_held(), LATE_S)
            clock.step_to(days * DAY_S)
            assert (await pull).status is not PullStatus.FOUND
            assert HOLD_S * 0.9 < time.monotonic() - began < HOLD_S + LATE_S

            pull = asyncio.create_task(consumer.pull(queue, end, suspend_ms=60_000))
            await asyncio.wait_for(until_held(), LATE_S)
            clock.step_to(0)
            await server.send(1)
            assert (await asyncio.wait_for(pull, LATE_S)).status is PullStatus.FOUND

    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        for end, days in enumerate((1, -1)):
            asyncio.run(work(server, days, end))


@pytest.mark.parametrize(
    ("before", "after"), [(0, HOUR_S), (HOUR_S, 0), (0, -HOUR_S)], ids=["ahead", "corrected", "back"]
)
def test_what_waits_comes_in_time_after_a_step(clock: SteppedClock, tmp_path: Path, before: int, after: int) -> None:
    """Delay levels, timers, retries, and checks of transactions, all begun after the step."""
    arrived: dict[bytes, list[float]] = {}

    def seen(body: bytes) -> int:
        arrived.setdefault(body, []).append(time.monotonic())
        return len(arrived[body])

    async def handle(message: ReceivedMessage) -> None:
        if seen(message.body) <= TRIES and message.body == b"retry":
            raise ReconsumeLater(1)

    def check(message: ReceivedMessage) -> TransactionState:
        seen(b"check")
        return TransactionState.COMMIT

    async def work(server: Server) -> float:
        async with (
            Client(server.namesrv) as client,
            client.transaction_producer("stepped", check) as producer,
            client.consumer("stepped-waiting", TOPIC, consume_from="first") as consumer,
        ):
            clock.step_to(before)
            await producer.send(Message(TOPIC, b"before", delay_ms=HOUR_S * 1000))
            await producer.send(Message(TOPIC, b"before"))
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: b"before" in arrived, "the first message", LATE_S)
            clock.step_to(after)
            begun = time.monotonic()
            await producer.send(Message(TOPIC, b"level", delay_level=1))
            await producer.send(Message(TOPIC, b"timer", delay_ms=1500))
            await producer.send(Message(TOPIC, b"retry"))
            async with producer.transaction(Message(TOPIC, b"decided")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await until(
                lambda: len(arrived.get(b"retry", ())) > TRIES and arrived.keys() >= {b"level", b"timer", b"decided"},
                "all messages",
                3 * LATE_S,
                lambda: f"{arrived}",
            )
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        return begun

    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        begun = asyncio.run(work(server))
    assert 1.0 <= arrived[b"level"][0] - begun < 1.0 + LATE_S
    assert 1.5 <= arrived[b"timer"][0] - begun < 1.5 + LATE_S
    tries = arrived[b"retry"]
    assert len(tries) == TRIES + 1
    assert all(1.0 <= later - earlier < 1.0 + LATE_S for earlier, later in pairwise(tries))
    assert arrived[b"check"][0] - begun < LATE_S
    if after == 0:  # the age of a half message is counted from the clock of its producer
        assert arrived[b"check"][0] - begun > 1.0
    assert len(arrived[b"level"]) == len(arrived[b"timer"]) == len(arrived[b"decided"]) == 1
    assert gantrymq(tmp_path, "store", "check", str(tmp_path / "store"))["findings"] == []


@pytest.mark.parametrize(("before", "after"), [(-HOUR_S, 0), (0, -HOUR_S)], ids=["ahead", "back"])
@pytest.mark.parametrize("orderly", [False, True], ids=["at random", "orderly"])
def test_an_invisible_time_is_over_at_an_ahead_step_and_begins_again_at_a_step_back(
    clock: SteppedClock, tmp_path: Path, before: int, after: int, orderly: bool
) -> None:
    async def work(server: Server) -> float:
        options = {"invisible_s": HOLD_S * 2, "poll_s": 1, "consume_from": "first", "orderly": orderly}
        async with Client(server.namesrv) as client, client.pop_consumer("stepped-pop", TOPIC, **options) as consumer:
            (message,) = await consumer.pop(poll_s=LATE_S)
            clock.step_to(after)
            begun = time.monotonic()
            while not (again := await consumer.pop()):
                assert time.monotonic() - begun < 2 * LATE_S
            assert [each.body for each in again] == [message.body]
            await consumer.ack(*again)
            return time.monotonic() - begun

    with serving(clock, tmp_path) as server:
        clock.step_to(before)
        asyncio.run(server.make_topic())
        asyncio.run(server.send(1))
        waited_s = asyncio.run(work(server))
    assert (waited_s >= HOLD_S * 2) == (after < before)


def test_how_long_a_group_is_behind_is_off_by_the_step(clock: SteppedClock, tmp_path: Path) -> None:
    async def fall_behind(server: Server) -> None:
        await server.send(SENDS)
        async with Client(server.namesrv) as client, client.reader(group="stepped-behind") as consumer:
            (queue,) = await consumer.queues(TOPIC)
            await consumer.pull(queue, 0)
            await consumer.commit(queue, 1)

    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        asyncio.run(fall_behind(server))
        pages = Pages(server.process.errors)
        for days, least_ms in ((0, 0), (1, DAY_S * 1000), (-1, 0)):
            clock.step_to(days * DAY_S)
            behind_ms = pages.value("rocketmq_group_get_latency_by_storetime")
            assert least_ms <= behind_ms < least_ms + NEAR_MS, days


def test_a_clock_four_days_ahead_makes_log_files_old_enough_to_go(clock: SteppedClock, tmp_path: Path) -> None:
    """Retention uses the wall clock: after the step, messages written before it count as four days old."""

    def log_files() -> list[Path]:
        return sorted((tmp_path / "store" / "commitlog").iterdir())

    def clean(server: Server) -> None:
        gantrymq(tmp_path, "broker", "clean", "log", "-n", server.namesrv, "-b", server.address)

    async def until_gone(server: Server) -> None:
        async with Client(server.namesrv) as client, client.reader(group="stepped-reader") as consumer:
            (queue,) = await consumer.queues(TOPIC)
            await until(lambda: len(log_files()) <= KEPT, "deletion", LATE_S, lambda: str(server.process.errors))
            assert await consumer.min_offset(queue) > 0
            result = await consumer.pull(queue, 0)  # a consumer that has not read them gets the offset to continue from
            assert result.status in (PullStatus.OFFSET_ILLEGAL, PullStatus.NO_MATCHED_MSG), result.status
            assert result.next_offset == await consumer.min_offset(queue)

    with serving(clock, tmp_path) as server:
        asyncio.run(server.make_topic())
        while len(log_files()) < LOG_FILES:
            asyncio.run(server.send(20, BIG))
        before = log_files()
        clock.step_to(-4 * DAY_S)
        clean(server)
        assert set(before) <= set(log_files())
        clock.step_to(4 * DAY_S)
        clean(server)
        asyncio.run(until_gone(server))
        assert not before[0].exists()
        newest = asyncio.run(server.read())  # the newest file stays, whatever its age
        assert newest
        asyncio.run(server.send(1))
        assert len(asyncio.run(server.read())) == len(newest) + 1
