"""Contract tests for transaction services.

A plugin's test derives from `TransactionContract` and creates the service:

    class TestMyTransactions(TransactionContract):
        make_service = MyTransactions
        settings = {"myTimeOut": 1000}     # so that producers are checked within `patience_s`

The service runs in a broker on a virtual clock, used by producers as by official clients: half messages, request 37,
and responses to request 39. It checks every second. One case restarts the broker; it needs the store on disk
(gantrymq-storage-mmap), and is skipped if that is not installed.

The rules: `gantrymq.interfaces.TransactionService`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest

from gantrymq.config import Value
from gantrymq.interfaces import TransactionService
from gantrymq_testing.simulation import simulate_cluster
from gantrymq_testing.transaction_contract_bench import (
    COMMIT,
    ROLLBACK,
    TOPIC,
    UNKNOWN,
    Half,
    TransactionBench,
    plugin_with,
    settings_for,
)

Work = Callable[[TransactionBench], Awaitable[None]]

QUIET_S = 30.0  # time in which no producer may be checked


class TransactionContract:
    """Derive and define `make_service`."""

    make_service: Callable[[], TransactionService]
    settings: ClassVar[Mapping[str, Value]] = {}
    patience_s: ClassVar[float] = 120.0  # virtual time limit for checking a producer about an undecided message

    def run(self, work: Work, **more: Any) -> None:
        """Run *work* with a broker and the service."""

        async def main(cluster: Any) -> None:
            await cluster.create_topic(TOPIC, 2)
            bench = TransactionBench(cluster)
            try:
                await work(bench)
            finally:
                await bench.close()

        make = type(self).make_service
        simulate_cluster(main, settings={**settings_for(self.settings), **more}, plugins=[plugin_with(make)])

    # --- decisions --------------------------------------------------------------------------------------------------

    def test_nothing_is_seen_before_the_commit_and_all_of_it_after(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one", {"TAGS": "red", "KEYS": "k1", "own": "value"})
            await bench.clock.sleep(0.5)
            assert await bench.bodies() == []
            assert await producer.end(half, COMMIT) == 0
            (message,) = await bench.seen()
            assert (message.body, message.tags, message.flag, message.queue_id) == (b"one", "red", 7, 1)
            assert message.properties["own"] == "value"
            assert message.message_id == half.unique_id
            found = await bench.cluster.pull(TOPIC, "red")
            assert [each.body for each in found] == [b"one"], "the committed message is not found by its tag"

        self.run(work)

    def test_what_is_rolled_back_is_never_seen(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            assert await producer.end(half, ROLLBACK) == 0
            await bench.clock.sleep(QUIET_S)
            assert await bench.bodies() == []
            assert producer.asked == []

        self.run(work)

    def test_the_same_decision_again_changes_nothing(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            answers = await asyncio.gather(*(producer.end(half, COMMIT) for _ in range(3)))
            answers.append(await producer.end(half, COMMIT))
            assert 0 in answers
            assert await bench.bodies() == [b"one"]

        self.run(work)

    def test_a_rollback_after_the_commit_takes_nothing_back(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            assert await producer.end(half, COMMIT) == 0
            await producer.end(half, ROLLBACK)
            assert await bench.bodies() == [b"one"]

        self.run(work)

    def test_another_group_cannot_decide(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            assert await producer.end(half, COMMIT, group="others") != 0
            assert await producer.end(half, ROLLBACK, group="others") != 0
            assert await bench.bodies() == []
            assert await producer.end(half, COMMIT) == 0
            assert await bench.bodies() == [b"one"]

        self.run(work)

    def test_a_decision_that_names_no_half_message_is_refused(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            for wrong in (
                Half(half.queue_offset + 1, half.log_offset, half.unique_id),
                Half(half.queue_offset, half.log_offset + 1, half.unique_id),
                Half(half.queue_offset, 1 << 40, half.unique_id),
            ):
                assert await producer.end(wrong, COMMIT) != 0
            assert await bench.bodies() == []
            assert await producer.end(half, COMMIT) == 0

        self.run(work)

    def test_what_decides_nothing_leaves_it_undecided(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            unanswered = asyncio.ensure_future(producer.end(half, UNKNOWN))
            await bench.clock.sleep(0.5)
            assert not unanswered.done(), "a state that decides nothing gets no answer"
            unanswered.cancel()
            assert await bench.bodies() == []
            assert await producer.end(half, COMMIT) == 0
            assert await bench.bodies() == [b"one"]

        self.run(work)

    def test_many_at_once_end_each_as_it_was_decided(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            halves = [await bench.half(producer, b"%03d" % number) for number in range(100)]
            decisions = [(COMMIT, ROLLBACK, COMMIT)[number % 3] for number in range(100)]
            answers = await asyncio.gather(*map(producer.end, halves, decisions))
            assert set(answers) == {0}
            wanted = [b"%03d" % number for number in range(100) if decisions[number] == COMMIT]
            assert await bench.bodies() == wanted

        self.run(work)

    # --- checks -----------------------------------------------------------------------------------------------------

    def test_a_producer_is_asked_about_an_undecided_message_until_it_answers(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            await bench.half(producer, b"one")
            await bench.half(producer, b"two")
            await bench.asked([producer], 2, self.patience_s)
            assert set(producer.bodies_asked()) == {b"one", b"two"}
            for asked in list(producer.asked):
                decision = COMMIT if bytes(asked.payload).find(b"one") >= 0 else ROLLBACK
                await producer.end(Half.in_check(asked), decision, from_check=True)
            assert await bench.bodies() == [b"one"]
            before = len(producer.asked)
            await bench.clock.sleep(QUIET_S)
            assert len(producer.asked) == before, "a producer is asked about a message that is decided"

        self.run(work)

    def test_another_member_is_asked_when_one_is_gone(self) -> None:
        async def work(bench: TransactionBench) -> None:
            first, second = await bench.producer("p1"), await bench.producer("p2")
            await bench.half(first, b"one")
            await first.client.close()
            await bench.asked([second], 1, self.patience_s)
            assert await second.end(Half.in_check(second.asked[-1]), COMMIT, from_check=True) == 0
            assert await bench.bodies() == [b"one"]

        self.run(work)

    def test_a_decision_that_crosses_a_check_counts_once(self) -> None:
        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            half = await bench.half(producer, b"one")
            await bench.asked([producer], 1, self.patience_s)
            checked = Half.in_check(producer.asked[-1])
            await producer.end(half, COMMIT)
            await producer.end(checked, COMMIT, from_check=True)
            assert await bench.bodies() == [b"one"]

        self.run(work)

    # --- a restart --------------------------------------------------------------------------------------------------

    def test_a_restart_forgets_neither_what_is_undecided_nor_what_is_decided(self) -> None:
        if find_spec("gantrymq_storage_mmap") is None:
            pytest.skip("needs gantrymq-storage-mmap, whose store survives a restart")

        async def work(bench: TransactionBench) -> None:
            producer = await bench.producer()
            halves = [await bench.half(producer, body) for body in (b"committed", b"rolled back", b"undecided")]
            assert await producer.end(halves[0], COMMIT) == 0
            assert await producer.end(halves[1], ROLLBACK) == 0
            await bench.restart()
            producer = await bench.producer()
            await bench.asked([producer], 1, self.patience_s)
            assert set(producer.bodies_asked()) == {b"undecided"}
            await producer.end(Half.in_check(producer.asked[-1]), COMMIT, from_check=True)
            assert await bench.bodies() == [b"committed", b"undecided"]

        self.run(work, store="mmap")
