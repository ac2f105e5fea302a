"""Two brokers of ours elected by a Java controller, and by etcd: the master is killed, and nothing is lost."""

import asyncio
import time
from contextlib import ExitStack

import pytest

pytest.importorskip("gantrymq_replication")

from etcd_servers import start_etcd
from harness import GantryServer, create_topic
from harness.probe import wait_for_registration
from java_controllers import start_controllers

from gantrymq.client import Client, Message
from gantrymq.errors import GantryError

pytestmark = pytest.mark.interop

SETTINGS = {"enableControllerMode": "true", "mappedFileSizeCommitLog": "1048576", "minInSyncReplicas": "1"}


@pytest.fixture
def running():
    with ExitStack() as stack:
        yield stack.enter_context


def controller(running, tmp_path):
    [found] = start_controllers(running, tmp_path, 1)
    return {"controllerAddr": found.address}


def etcd(running, tmp_path):
    [found] = start_etcd(running, tmp_path, 1)
    return {"electionEngine": "etcd", "etcdEndpoints": found.endpoint, "etcdLeaseSeconds": "3"}


async def send(client, numbers, acknowledged, until_s=30.0):
    """Send *numbers*, each until it is acknowledged."""
    producer = client.producer("p")
    for number in numbers:
        until = time.monotonic() + until_s
        while True:
            try:
                result = await producer.send(Message("Orders", b"%d" % number + b"x" * 300), timeout_s=2)
                if result.status.name == "SEND_OK":
                    acknowledged.append(number)
                    break
            except GantryError as error:
                assert time.monotonic() < until, error
            await asyncio.sleep(0.05)


async def read_all(client, expected, deadline_s=20.0):
    found, until = set(), time.monotonic() + deadline_s
    async with client.reader("Orders") as reader:
        while not expected <= found and time.monotonic() < until:
            for each in await reader.read(timeout_s=1):
                found.add(int(each.body.rstrip(b"x")))
    return found


@pytest.mark.parametrize("engine", [controller, etcd])
def test_the_slave_is_elected_when_the_master_is_killed(running, tmp_path, engine):
    settings = {**SETTINGS, **engine(running, tmp_path)}
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    one = running(GantryServer.broker(tmp_path / "one", namesrv, settings=settings))
    create_topic(namesrv, "Orders", queues=2)
    acknowledged: list[int] = []

    async def main():
        async with Client(namesrv) as client:
            await send(client, range(20), acknowledged)
            two = running(GantryServer.broker(tmp_path / "two", namesrv, settings=settings))
            await asyncio.sleep(6)
            await send(client, range(20, 60), acknowledged)
            one.kill()
            began = time.monotonic()
            await send(client, range(60, 61), acknowledged)
            print("without a master for", time.monotonic() - began)
            await send(client, range(61, 100), acknowledged)
            found = await read_all(client, set(acknowledged))
            assert found >= set(acknowledged)
            assert two.alive()

    asyncio.run(main())
