"""A Java broker 5.3.3 and one of ours are each other's slave and master, elected by a Java controller."""

import asyncio
import json

import pytest

pytest.importorskip("gantrymq_replication")

from harness import GantryServer, create_topic
from harness.java_servers import SMALL_STORE
from harness.ports import free_port
from harness.probe import request, wait_for_registration
from java_controllers import ElectedJavaBroker, start_controllers
from polling import wait_until
from test_elected_brokers_interop import election, log_of, read_all, send, wait_for_master

from gantrymq.client import Client

pytestmark = pytest.mark.interop


def test_ours_and_a_java_broker_replace_each_other(running, tmp_path):
    [controller] = start_controllers(running, tmp_path, 1)
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    ports, store = (free_port(also_below=2), free_port()), tmp_path / "java" / "store"

    def java(name):
        return running(ElectedJavaBroker(tmp_path / name, store, namesrv, [controller], ports))

    def ours():
        settings = {
            "enableControllerMode": "true",
            "controllerAddr": controller.address,
            **{key: str(value) for key, value in SMALL_STORE.items() if key.startswith("mappedFileSizeCommitLog")},
        }
        return running(GantryServer.broker(tmp_path / "ours", namesrv, settings=settings))

    def wait_for_set(broker, members):
        wait_until(lambda: election(broker)["syncStateSet"] == members, f"set {members}", 60, broker.tail)

    one = java("one")
    wait_for_registration(namesrv, one.address)
    create_topic(namesrv, "Orders", queues=2)
    acknowledged: list[int] = []

    async def main():
        async with Client(namesrv) as client:
            await send(client, range(30), acknowledged)
            two = await asyncio.to_thread(ours)
            await asyncio.to_thread(wait_for_set, two, [1, 2])
            await send(client, range(30, 50), acknowledged)
            await asyncio.sleep(2)  # a Java master acknowledges what only it has
            one.kill()
            await asyncio.to_thread(wait_for_master, namesrv, two)
            await send(client, range(50, 80), acknowledged)
            assert await read_all(client, set(acknowledged)) >= set(acknowledged)

            again = await asyncio.to_thread(java, "again")
            await asyncio.to_thread(wait_for_set, two, [1, 2])
            await send(client, range(80, 100), acknowledged)
            await asyncio.sleep(1)
            mine = log_of(two, tmp_path / "ours" / "store")
            assert log_of(again, store)[: len(mine)] == mine
            epochs = json.loads(request(two.broker_address, 1007, {})[1])["epochList"]
            assert [each["epoch"] for each in epochs] == [1, 2]
            assert (store / "epochFileCheckpoint").read_bytes() == (
                tmp_path / "ours" / "store" / "epochFileCheckpoint"
            ).read_bytes()

            assert await asyncio.to_thread(two.stop) == 0
            await send(client, range(100, 120), acknowledged, 60)
            assert await read_all(client, set(acknowledged)) >= set(acknowledged)
            print(two._err.read_text())

    asyncio.run(main())
