"""An application of FastStream as a process, and broker objects here, against a broker that is a process."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from faststream import BaseMiddleware
from faststream.exceptions import NackMessage, SetupError, StopConsume
from faststream.middlewares import AckPolicy
from faststream.security import BaseSecurity
from polling import until

from gantrymq.client import CallTimeout, Client, ClientError, SqliteRecords, idempotent
from gantrymq_faststream import GantryBroker, TestGantryBroker
from gantrymq_faststream.annotations import GantryBatchMessage, GantryMessage

SHOP = Path(__file__).with_name("shop.py")
END_S = 60.0


class Shop:
    """The application, and what it says."""

    def __init__(self, namesrv):
        self._child = subprocess.Popen(
            [sys.executable, str(SHOP)],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NAMESRV_ADDR": namesrv},
        )
        self.lines = []
        self._changed = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self):
        for line in self._child.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()

    def wait(self, count, of):
        """*count* lines that begin with *of*."""
        deadline = time.monotonic() + END_S
        with self._changed:
            while len(found := [line for line in self.lines if line.startswith(of)]) < count:
                if not self._changed.wait(max(0, deadline - time.monotonic())):
                    raise AssertionError(f"{count} lines with {of!r} are not there: {self.lines}")
            return found

    def done(self):
        """What is finished of the slow ones."""
        with self._changed:
            return [line for line in self.lines if line.endswith("done")]

    def terminate(self):
        """As systemd does; the exit code, when all that it said is read."""
        self._child.send_signal(signal.SIGTERM)
        code = self._child.wait(END_S)
        self._reading.join(END_S)
        return code

    def __enter__(self):
        self.wait(1, "ready")
        return self

    def __exit__(self, *_):
        self._child.kill()
        self._child.wait(END_S)
        self._reading.join(END_S)
        self._child.stdout.close()


def publish(namesrv, work):
    async def main():
        async with GantryBroker(namesrv) as broker:
            return await work(broker)

    return asyncio.run(main())


def test_orders_become_invoices_and_one_that_failed_comes_again(servers):
    async def orders(broker):
        for number in range(20):
            result = await broker.publish({"id": number, "amount": number % 10}, "Orders", keys=f"k{number}")
            assert result.ok

    publish(servers.namesrv, orders)
    with Shop(servers.namesrv) as shop:
        found = shop.wait(20, "invoice")
    expected = [f"invoice {number} after {2 if number % 10 == 0 else 1}" for number in range(20)]
    assert sorted(found) == sorted(expected)


def test_acknowledging_by_hand_rejecting_batches_order_and_requests(servers):
    async def send(broker):
        for number in range(3):
            await broker.publish(number, "Manual")
        await broker.publish(7, "Refused")
        await broker.publish_batch(*range(40), topic="Lines", ordering_key="one")
        for number in range(8):
            for customer in ("ann", "bob"):
                await broker.publish(f"{customer} {number}", "Steps", ordering_key=customer)
                if number == 5:
                    await broker.publish(f"{customer} bad", "Steps", ordering_key=customer)

    publish(servers.namesrv, send)
    with Shop(servers.namesrv) as shop:
        manual = shop.wait(6, "manual")
        assert sorted(manual) == sorted(f"manual {number} {end}" for number in range(3) for end in ("nack", "ack"))
        steps = shop.wait(16, "step")
        for customer in ("ann", "bob"):
            mine = [line for line in steps if customer in line]
            assert mine == [f"step {customer} {number}" for number in range(8)]
        batches = [line.split()[1:] for line in shop.wait(5, "lines")]
        numbers = [int(number) for batch in batches for number in batch[1:]]
        assert numbers == list(range(40)) and max(int(batch[0]) for batch in batches) <= 8

        async def ask(broker):
            answer = await broker.request("apples", "Prices", timeout_s=20, headers={"a": "b"})
            assert answer.correlation_id
            return await answer.decode()

        assert publish(servers.namesrv, ask) == {"price": 6}
        assert asyncio.run(dead_letters(servers.namesrv, "refused")) == [b"7"]
        assert sorted(asyncio.run(dead_letters(servers.namesrv, "steps"))) == [b"ann bad", b"bob bad"]


async def dead_letters(namesrv, group):
    async with Client(namesrv) as client, client.reader("letters") as reader:
        await reader.wait_ready(f"%DLQ%{group}", END_S)
        (queue,) = await reader.queues(f"%DLQ%{group}")
        return [message.body for message in (await reader.pull(queue, 0)).messages]


def test_a_stop_lets_a_handler_finish_and_loses_nothing(servers):
    async def send(broker):
        for number in range(6):
            await broker.publish(number, "Slow", ordering_key="one")

    publish(servers.namesrv, send)
    with Shop(servers.namesrv) as shop:
        shop.wait(1, "slow 1 begun")
        assert shop.terminate() == 0
        before = shop.done()
        assert "slow 1 done" in before
    with Shop(servers.namesrv) as shop:
        shop.wait(1, "slow 5 done")
        after = shop.done()
    assert before + after == [f"slow {number} done" for number in range(6)]  # none was lost, none came twice


def test_messages_are_asked_for_one_by_one(servers):
    async def main():
        async with GantryBroker(servers.namesrv) as broker:
            for number in range(3):
                await broker.publish(number, "Single", tags="a" if number else "b", ordering_key="one")
            subscriber = broker.subscriber("Single", group="single", expression="a", consume_from="first")
            await subscriber.start()
            first = await subscriber.get_one(timeout=30)
            assert await first.decode() == 1
            await first.ack()
            async for message in subscriber:
                assert await message.decode() == 2
                await message.ack()
                break
            assert await subscriber.get_one(timeout=0.2) is None
            await subscriber.stop()

    asyncio.run(main())


def test_a_broker_starts_again_and_a_handler_may_stop_its_subscriber(servers):
    broker, seen = GantryBroker(servers.namesrv), []

    @broker.subscriber("Orders", group="billing", consume_from="first")
    async def bill(number: int):
        seen.append(number)
        (end if number == 1 else more).set()
        if number == 1:
            raise StopConsume

    end, more = asyncio.Event(), asyncio.Event()

    async def main():
        async with broker:
            await broker.start()
            await broker.publish(1, "Orders")
            await asyncio.wait_for(end.wait(), END_S)
            await until(lambda: broker.subscribers[0].consumer is None, "stopped subscriber", END_S)
            await broker.publish(2, "Orders")
        assert seen == [1]
        async with broker:
            await broker.start()
            await asyncio.wait_for(more.wait(), END_S)

    asyncio.run(main())
    assert seen[-1] == 2 and set(seen) == {1, 2}


def test_a_handler_that_takes_too_long_to_stop_is_cancelled_and_its_message_comes_again(servers):
    broker, begun, ended = GantryBroker(servers.namesrv, graceful_timeout=0.1), [], []
    first, again = asyncio.Event(), asyncio.Event()

    @broker.subscriber("Orders", group="billing", consume_from="first", max_workers=2)
    async def bill(number: int):
        begun.append(number)
        if len(begun) > 1:
            again.set()
            return
        first.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def main():
        async with broker:
            await broker.start()
            await broker.publish(1, "Orders")
            await asyncio.wait_for(first.wait(), END_S)
        assert ended == [1]
        async with broker:
            await broker.start()
            await asyncio.wait_for(again.wait(), END_S)

    asyncio.run(main())
    assert begun == [1, 1]


async def inner_task_cancelled():
    task = asyncio.ensure_future(asyncio.sleep(1000))
    await asyncio.sleep(0)
    task.cancel()
    await task


class CancellingMiddleware(BaseMiddleware):
    async def consume_scope(self, call_next, msg):
        raw = msg.raw_message
        if not isinstance(raw, list) and raw.topic == "Middlewares" and not raw.reconsume_times:
            await inner_task_cancelled()
        return await call_next(msg)


KINDS = ("Handlers", "Batches", "Parsers", "Middlewares")


def test_a_cancelled_error_of_the_application_is_a_failed_message_and_ends_no_subscriber(servers):
    broker, seen, done = GantryBroker(servers.namesrv, middlewares=(CancellingMiddleware,)), [], asyncio.Event()

    def note(kind, number):
        seen.append((kind, number))
        if len(seen) == 2 * len(KINDS):
            done.set()

    @broker.subscriber("Handlers", group="handlers", consume_from="first")
    async def handle(number: int, message: GantryMessage):
        if not message.raw_message.reconsume_times:
            await inner_task_cancelled()
        note("Handlers", number)

    @broker.subscriber("Batches", group="batches", consume_from="first", batch=True, max_records=1)
    async def handle_batch(numbers: list[int], batch: GantryBatchMessage):
        if not batch.raw_message[0].reconsume_times:
            await inner_task_cancelled()
        note("Batches", numbers[0])

    async def parse(raw, original):
        if not raw.reconsume_times:
            await inner_task_cancelled()
        return await original(raw)

    @broker.subscriber("Parsers", group="parsers", consume_from="first", parser=parse)
    async def handle_parsed(number: int):
        note("Parsers", number)

    @broker.subscriber("Middlewares", group="middlewares", consume_from="first")
    async def handle_after(number: int):
        note("Middlewares", number)

    async def main():
        async with broker:
            for kind in KINDS:
                for number in range(2):
                    await broker.publish(number, kind, ordering_key="one")
            await broker.start()
            await asyncio.wait_for(done.wait(), END_S)

    asyncio.run(main())
    assert sorted(seen) == sorted((kind, number) for kind in KINDS for number in range(2))


def test_a_message_is_consumed_when_what_a_plain_handler_returned_is_done(servers):
    broker, seen, done = GantryBroker(servers.namesrv), [], asyncio.Event()

    async def work(number, tries):
        await asyncio.sleep(0)
        seen.append((number, tries))
        if not tries:
            raise RuntimeError("not yet")
        if len(seen) == 4:
            done.set()

    @broker.subscriber("Orders", group="billing", consume_from="first")
    def bill(number: int, message: GantryMessage):
        return work(number, message.raw_message.reconsume_times)

    async def main():
        async with broker:
            for number in range(2):
                await broker.publish(number, "Orders")
            await broker.start()
            await asyncio.wait_for(done.wait(), END_S)

    asyncio.run(main())
    assert sorted(seen) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_broker_that_wants_tls_gets_it(parts_of_a_server, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    import client_rig

    monkeypatch.setitem(client_rig.SETTINGS, "tls.server.mode", "enforcing")

    async def main(namesrv):
        async with GantryBroker(namesrv, security=BaseSecurity(use_ssl=True)) as broker:
            assert await broker.ping(END_S)
            assert (await broker.publish("x", "Orders")).ok
        async with GantryBroker(namesrv) as broker:
            with pytest.raises(ClientError):
                await broker.publish("x", "Orders", timeout_s=1)

    with client_rig.Servers(tmp_path) as servers:
        asyncio.run(main(servers.namesrv))


def test_its_effect_happens_once_though_the_message_fails_afterwards(servers, tmp_path):
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("CREATE TABLE done (number INTEGER)")
    once, tries = idempotent(SqliteRecords(database), "billing"), []
    broker = GantryBroker(servers.namesrv)

    @broker.subscriber("Orders", group="billing", consume_from="first")
    async def bill(number: int, message: GantryMessage):
        async with once.attempt(message.raw_message) as connection:
            if connection is not None:
                await connection.execute("INSERT INTO done VALUES (?)", (number,))
        tries.append(number)
        if len(tries) == 1:
            raise NackMessage(delay_level=1)
        done.set()

    done = asyncio.Event()

    async def main():
        async with broker:
            await broker.publish(7, "Orders")
            await broker.start()
            await asyncio.wait_for(done.wait(), END_S)

    asyncio.run(main())
    once._store.close()
    with contextlib.closing(sqlite3.connect(database)) as file:
        assert (tries, file.execute("SELECT number FROM done").fetchall()) == ([7, 7], [(7,)])


def test_calls_are_counted_against_the_real_broker_too(servers):
    broker = GantryBroker(servers.namesrv)
    publisher = broker.publisher("Invoices")

    @broker.subscriber("Orders", group="billing", consume_from="first")
    @publisher
    async def bill(number: int) -> int:
        return number * 2

    async def main():
        async with TestGantryBroker(broker, with_real=True):
            await broker.publish(4, "Orders")
            await bill.wait_call(END_S)
            bill.mock.assert_called_once_with(4)

    asyncio.run(main())


def test_what_is_not_legal_is_told_where_it_is_said(servers):
    async def main():
        async with GantryBroker(servers.namesrv) as broker:
            with pytest.raises(ClientError, match="UNIQ_KEY"):
                await broker.publish("x", "Orders", headers={"UNIQ_KEY": "mine"})
            with pytest.raises(CallTimeout, match="no reply to the request"):
                await broker.request("x", "Nobody", timeout_s=1)

    asyncio.run(main())


def test_two_subscribers_of_one_group_are_refused(servers):
    broker = GantryBroker(servers.namesrv)
    kept = [broker.subscriber(topic, group="same") for topic in ("A", "B")]

    async def main():
        with pytest.raises(SetupError, match="several subscribers have the group same"):
            await broker.start()
        await broker.stop()

    asyncio.run(main())
    assert kept


def test_everybody_hears_a_broadcast_and_sql92_chooses_by_headers(servers, tmp_path):
    pytest.importorskip("gantrymq_filter_sql92")
    brokers, heard, chosen = [], [], []

    def hears(name):
        async def read(text: str):
            heard.append((name, text))
            if len(heard) == 4:
                done.set()

        return read

    for name in ("one", "two"):
        broker = GantryBroker(servers.namesrv, client_options={"instance_name": name})
        subscriber = broker.subscriber(
            "News", group="readers", broadcasting=True, consume_from="first", offsets_folder=str(tmp_path / name)
        )
        brokers.append((broker, subscriber(hears(name))))

    @brokers[0][0].subscriber(
        "Sized", group="sized", expression="size > 5", expression_type="SQL92", consume_from="first"
    )
    async def sized(text: str, message: GantryMessage):
        chosen.append(text)
        if len(chosen) == 2:
            done_sized.set()

    done, done_sized = asyncio.Event(), asyncio.Event()

    async def main():
        async with brokers[0][0] as first, brokers[1][0] as second:
            await first.publish("zero", "News")
            await first.publish("small", "Sized", headers={"size": 3})
            await first.start()
            await second.start()
            await first.publish("one", "News")
            for size in (9, 4, 7):
                await first.publish(f"size {size}", "Sized", headers={"size": size})
            await asyncio.wait_for(asyncio.gather(done.wait(), done_sized.wait()), END_S)

    asyncio.run(main())
    assert sorted(heard) == sorted((name, text) for name in ("one", "two") for text in ("zero", "one"))
    assert sorted(chosen) == ["size 7", "size 9"]


def test_a_broker_that_is_away_does_not_answer_a_ping():
    async def main():
        broker = GantryBroker("127.0.0.1:1", ack_policy=AckPolicy.ACK)
        assert not await broker.ping(1)
        async with broker:
            assert not await broker.ping(0.2)

    asyncio.run(main())
