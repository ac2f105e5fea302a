"""What cleaning preserves, and what a restart preserves."""

from __future__ import annotations

import pytest

from gantrymq.interfaces import Cleaning, CleanReport
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract.cases import T0, StoreCases, with_store
from gantrymq_testing.store_contract_bench import StoreBench, bodies, keyed, message


class KeepingCases(StoreCases):
    """Only expired messages are removed."""

    # --- cleaning -----------------------------------------------------------------------------------------------------

    @with_store()
    async def test_cleaning_leaves_alone_what_has_not_expired(self, bench: StoreBench) -> None:
        await bench.add(message("A", body=b"1"), message("B", body=b"2"))
        for what in Cleaning:
            assert await bench.require(bench.capabilities.cleaning).clean(what) == CleanReport()
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"1"]
        assert sorted(bench.store.queues()) == [Queue("A", 0), Queue("B", 0)]

    # --- restart ------------------------------------------------------------------------------------------------------

    @with_store()
    async def test_a_restart_keeps_everything(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        sent = [message("AB"[n % 2], n % 3, b"%d" % n * 50, "TagA") for n in range(60)]
        results = await bench.add(*sent)
        queues = sorted(bench.store.queues())
        before = {queue: [bytes(record.raw) for record in await bench.read_all(queue)] for queue in queues}
        entries = list(bench.store.scan(0, results[-1].end))
        for _ in range(2):
            report = await bench.restart()
            assert report.clean
            assert (report.log_end, report.cut_bytes) == (results[-1].end, 0)
            assert sorted(bench.store.queues()) == queues
            after = {queue: [bytes(record.raw) for record in await bench.read_all(queue)] for queue in queues}
            assert after == before
            assert list(bench.store.scan(0, results[-1].end)) == entries
            state = bench.store.state()
            assert state.max_log_offset == state.flushed_offset == state.published_offset == results[-1].end

    @with_store()
    async def test_a_restart_keeps_keys(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        for n in range(3):
            await bench.add(keyed(b"%d" % n, "k", f"U{n}"), message(body=b"no key"))
            await bench.restart()
            assert bodies((await bench.query("k"))[0]) == [b"%d" % m for m in range(n + 1)]
            assert bodies((await bench.query(f"U{n}"))[0]) == [b"%d" % n]

    @with_store()
    async def test_numbers_go_on_after_a_restart(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        results = await bench.add(message(), message(), message(queue_id=1))
        bench.clock.now -= 1000
        await bench.restart()
        more = await bench.add(message(body=b"more"), message(queue_id=1), message("Other"))
        assert [result.queue_offset for result in more] == [2, 1, 0]
        assert more[0].log_offset == results[-1].end
        assert bodies(await bench.read_all(T0, 2)) == [b"more"]

    @with_store()
    async def test_an_empty_store_restarts(self, bench: StoreBench) -> None:
        report = await bench.restart()
        assert report.clean
        assert (report.log_end, report.records_checked) == (0, 0)
        assert list(bench.store.queues()) == []
