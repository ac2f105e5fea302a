"""Services and clients of elected brokers while the master changes, planned or not.

One run has all of them: delayed and timed messages, transactions, pops, retries, ordered consumption, and a producer.
"""

import asyncio
import os
from collections import Counter
from contextlib import suppress

import pytest

pytest.importorskip("gantrymq_replication")

from elected_group import simulate_group

from gantrymq.client import Message, ReconsumeLater, TransactionState
from gantrymq.errors import ClientError
from gantrymq.model.topic import TopicConfig

SEEDS = int(os.environ.get("GANTRYMQ_ELECTION_SEEDS", "1"))
INVISIBLE_S = 15
SETTINGS = {"transactionTimeOut": 3000, "transactionCheckInterval": 2000}


class Services:
    """What clients do and see."""

    def __init__(self, group, process, client):
        self.group, self.clock, self.process, self.client = group, group.clock, process, client
        self.producer = client.producer("p", default_timeout_s=3.0)
        self.sent, self.failed = [], 0  # when a send was acknowledged
        self.ordered, self.retried = [], Counter()
        self.popped = []  # body and time since the first pop
        self.checked = Counter()

    # --- before the switch --------------------------------------------------------------------------------------------

    async def begin(self):
        for name in ("D", "H", "P", "R", "O"):
            await self.client.admin.create_topic(self.group.master.address, TopicConfig(name, 1, 1))
        await self._delay()
        await self._transact()
        await self._pop()
        self._tasks = [
            asyncio.ensure_future(self._run(self._produce())),
            asyncio.ensure_future(self._run(self._consume("ordered", "O", self._in_order, orderly=True))),
            asyncio.ensure_future(self._run(self._consume("retrying", "R", self._retry))),
        ]
        for number in range(3):
            await self.producer.send(Message("R", b"%d" % number))

    async def _run(self, work):
        await self.process.run(work)

    async def _delay(self):
        for name, options in (
            ("level 1", {"delay_level": 1}),
            ("level 2", {"delay_level": 2}),
            ("timer 1", {"delay_ms": 1000}),
            ("timer 6", {"delay_ms": 6000}),
        ):
            await self.producer.send(Message("D", name.encode(), **options))

    async def _check(self, message):
        self.checked[message.body] += 1
        return TransactionState.COMMIT

    async def _transact(self):
        self.transactions = self.client.transaction_producer("PG", self._check)
        for body, state in (
            (b"committed", TransactionState.COMMIT),
            (b"rolled back", TransactionState.ROLLBACK),
            (b"undecided", TransactionState.UNKNOWN),
        ):
            async with self.transactions.transaction(Message("H", body)) as transaction:
                transaction.state = state

    async def _pop(self):
        for body in (b"acknowledged", b"in flight"):
            await self.producer.send(Message("P", body))
        self.pops = self.client.pop_consumer("PC", "P", invisible_s=INVISIBLE_S, consume_from="first", auto_ack=False)
        first, _ = await self.pops.pop(2)
        self.popped_at = self.clock.monotonic()
        await self.pops.ack(first)

    async def _produce(self):
        number = 0
        while True:
            try:
                await self.producer.send(Message("O", b"%d" % number), timeout_s=3.0)
            except ClientError:
                self.failed += 1
            else:
                self.sent.append((self.clock.monotonic(), number))
            number += 1
            await self.clock.sleep(0.05)

    async def _consume(self, group, topic, handle, **options):
        await self.client.consumer(group, topic, consume_from="first", **options).run(handle)

    async def _in_order(self, message):
        self.ordered.append((self.clock.monotonic(), int(message.body)))

    async def _retry(self, message):
        self.retried[message.body] += 1
        if not message.reconsume_times:
            raise ReconsumeLater(2)

    # --- after it -----------------------------------------------------------------------------------------------------

    async def end(self, group, elected_at):
        """Compare what came with what was sent, 40 s after the switch."""
        while self.clock.monotonic() < self.popped_at + 2 * INVISIBLE_S - 3:
            with suppress(ClientError):  # the service of a new master starts when all that it has is visible
                for each in await self.pops.pop(poll_s=1):
                    self.popped.append((each.body, self.clock.monotonic() - self.popped_at))
            await self.clock.sleep(0.2)
        self._tasks[0].cancel()
        await self.clock.sleep(5)
        for each in self._tasks:
            each.cancel()
        master = group.master
        assert sorted(await master.bodies("D")) == [b"level 1", b"level 2", b"timer 1", b"timer 6"]
        assert sorted(await master.bodies("H")) == [b"committed", b"undecided"]
        assert [body for body, _ in self.popped].count(b"acknowledged") == 0
        ((_, after_s),) = (each for each in self.popped if each[0] == b"in flight")
        assert INVISIBLE_S - 1 < after_s < INVISIBLE_S + 5
        assert set(self.retried) == {b"0", b"1", b"2"}
        assert min(self.retried.values()) >= 2, "a message was not delivered again"
        self._judge_order()
        first_sent = min(at for at, _ in self.sent if at >= elected_at) - elected_at
        first_seen = min(at for at, _ in self.ordered if at >= elected_at) - elected_at
        assert max(first_sent, first_seen) < 3
        return first_sent, first_seen

    def _judge_order(self):
        """Each acknowledged message was consumed; the first deliveries are in order."""
        first = list(dict.fromkeys(number for _, number in self.ordered))
        assert first == sorted(first)
        assert {number for _, number in self.sent} <= set(first)
        self.again = len(self.ordered) - len(first)


@pytest.mark.parametrize(
    "how", ["kill", pytest.param("stop", marks=pytest.mark.slow), pytest.param("kill all", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_services_go_on_at_the_next_master(how, seed, monkeypatch):
    async def main(group):
        process, client = await group.client()

        async def run():
            services = Services(group, process, client)
            await services.begin()
            return services

        services = await process.run(run())
        await group.clock.sleep(group.pair.world.random.uniform(1.5, 4.5))
        old, began = [group.master] if how != "kill all" else group.all, group.clock.monotonic()
        for each in old:
            if how == "stop":
                await each.stop()
            else:
                each.process.kill()
        if how == "kill all":
            await asyncio.gather(*(each.start() for each in old))
        await group.next_master()
        elected_at = group.clock.monotonic()
        for each in old:
            if not each.runs:
                await each.start()
        sent_s, seen_s = await process.run(services.end(group, elected_at))
        print(
            f"{how} {seed}: elected after {elected_at - began:.2f} s, first send {sent_s:.2f} s and first message "
            f"{seen_s:.2f} s later, {services.failed} sends failed, {services.again} messages came again, "
            f"retries {dict(services.retried)}, checks {dict(services.checked)}"
        )

    simulate_group(main, monkeypatch, seed, count=1 + (how != "kill all" or seed % 2 == 0), **SETTINGS)
