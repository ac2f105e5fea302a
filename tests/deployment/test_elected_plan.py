"""A planned cluster whose masters are elected by Debian's etcd: each machine is lost in turn, under a sender."""

import asyncio
import json
import signal
import time
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("aetcd")

from etcd_servers import start_etcd
from harness.probe import request
from planned_cluster import PlannedCluster
from polling import until

from gantrymq.client import Client, ClientError, Message, TopicConfig

pytestmark = pytest.mark.interop

DESCRIPTION = """
cluster = "orders"
masters = 1
slaves = 2
name_servers = 1
data = "/data"

[machines]
m1 = "NETWORK.1"
m2 = "NETWORK.2"
m3 = "NETWORK.3"

[settings]
enableControllerMode = true
electionEngine = "etcd"
etcdEndpoints = "ENDPOINTS"
etcdLeaseSeconds = 3
minInSyncReplicas = 2
mappedFileSizeCommitLog = 4194304
metricsExporterType = "DISABLE"
fastPortEnable = false
"""


def test_a_planned_set_survives_the_loss_of_each_machine(tmp_path):
    async def main(endpoints):
        async with PlannedCluster(DESCRIPTION.replace("ENDPOINTS", endpoints), tmp_path) as cluster:
            brokers = [each for each in cluster.servers if each.broker]

            async def state(broker):
                """What a broker tells of its election."""
                with suppress(OSError, AssertionError):
                    answer = await asyncio.to_thread(request, broker.address, 907, {})
                    return json.loads(answer[1])["election"]
                return {}

            async def all_in_sync():
                states = [await state(each) for each in brokers]
                return all(each.get("syncStateSet") == [1, 2, 3] for each in states)

            async def send(client, numbers):
                producer = client.producer("shop")
                for number in numbers:
                    until_s = time.monotonic() + 30
                    while True:
                        with suppress(ClientError):
                            if (await producer.send(Message("Orders", b"%d" % number), timeout_s=2)).ok:
                                break
                        assert time.monotonic() < until_s, f"message {number} was not acknowledged"
                        await asyncio.sleep(0.05)  # real time: rate of the retries

            await until(all_in_sync, "set of three", 40)
            async with Client(cluster.namesrv) as client:
                await client.admin.create_topic_in(TopicConfig("Orders", read_queues=2, write_queues=2))
                await send(client, range(20))
                for step, broker in enumerate(brokers, 1):
                    await broker.end(signal.SIGKILL)
                    began = time.monotonic()
                    await send(client, range(step * 100, step * 100 + 20))
                    print(f"{broker.name} killed: 20 sends in {time.monotonic() - began:.1f} s")
                    await broker.start()
                    await until(all_in_sync, "set of three", 40)
                expected = {number for step in range(4) for number in range(step * 100, step * 100 + 20)}
                found = set()
                async with asyncio.timeout(30):
                    async for each in client.reader("Orders", start="first"):
                        found.add(int(each.body))
                        if found >= expected:
                            break

    with ExitStack() as stack:
        servers = start_etcd(stack.enter_context, tmp_path, 3)
        asyncio.run(main(";".join(each.endpoint for each in servers)))
