"""Existing stores: a Java broker's with pending transactions, and logs that end inside an append."""

import asyncio
import shutil

import pytest
from polling import until

pytest.importorskip("gantrymq_storage_mmap")

from operator_requests import list_transactions
from store_cuts import cut

from gantrymq.client import Client
from gantrymq.interfaces import GetLimit
from gantrymq.model.names import HALF_TOPIC, OP_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.transaction_contract_bench import COMMIT, TOPIC, Half, TransactionBench

golden_stores = pytest.importorskip("golden_stores")

GOLDEN_SIZES = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
}
OFTEN = {"store": "mmap", "transactionCheckInterval": 200, "transactionTimeOut": 100, "fileReservedTime": 10**6}


def run(root, work, **settings):
    """Run ``await work(bench)`` with a broker on the store in *root*."""

    async def main():
        world = real_world()
        cluster = Cluster(world, root, {**OFTEN, **settings})
        await cluster.start()
        bench = TransactionBench(cluster)
        try:
            return await work(bench)
        finally:
            await bench.close()
            await cluster.stop()
            await world.workers.close()

    return asyncio.run(main())


async def listed(bench, **wanted):
    async with Client(bench.cluster.namesrv) as client, client.admin as admin:
        return await list_transactions(admin, bench.cluster.broker_address, **wanted)


def test_pending_transactions_of_a_java_broker_are_known(tmp_path):
    golden_stores.unpack(tmp_path / "golden")
    shutil.copytree(tmp_path / "golden" / "transaction" / "store", tmp_path / "store")

    async def work(bench):
        page = await listed(bench)
        assert [(each["keys"], each["checks"]) for each in page["transactions"]] == [("late19", 1), ("late20", 1)]
        assert {each["producer_group"] for each in page["transactions"]} == {"PG_tx"}
        given_up = (await listed(bench, given_up=True))["transactions"]
        assert {each["checks"] for each in given_up} == {3}
        committed = bench.cluster.broker.offsets.committed("CID_RMQ_SYS_TRANS", Queue(HALF_TOPIC, 0))
        assert committed == 42

    run(tmp_path, work, **GOLDEN_SIZES, transactionCheckInterval=10**6)


@pytest.mark.parametrize("kept", ["half", "half and message", "all"])
def test_a_log_that_ends_inside_the_commit_yields_one_message(tmp_path, kept):
    """The message and its op message are one append, of which a power cut may leave a part."""

    async def commit(bench):
        await bench.cluster.create_topic(TOPIC, 2)
        producer = await bench.producer()
        half = await bench.half(producer, b"one")
        half_end = bench.cluster.store.state().max_log_offset
        assert await producer.end(half, COMMIT) == 0
        op = await bench.cluster.broker.messages.get(Queue(OP_TOPIC, 0), 0, GetLimit(1))
        op_start = bench.cluster.store.state().max_log_offset - op.size
        return half, {"half": half_end, "half and message": op_start, "all": None}[kept]

    half, end = run(tmp_path, commit, transactionCheckInterval=10**6)
    if end is not None:
        cut(tmp_path / "store", end)

    async def again(bench):
        producer = await bench.producer()

        async def decided():
            if not (await listed(bench))["undecided"]:
                return True
            for asked in producer.asked:
                await producer.end(Half.in_check(asked), COMMIT, from_check=True)
            return False

        await until(decided, "decision")
        assert await producer.end(half, COMMIT) == 0
        assert await bench.bodies() == [b"one"]
        assert (await listed(bench))["undecided"] == 0
        return len(producer.asked)

    assert (run(tmp_path, again) > 0) == (kept == "half")
