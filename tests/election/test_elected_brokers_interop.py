"""Two brokers of ours elected by a Java controller, and by etcd: the master is killed, and nothing is lost."""

import asyncio
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

pytest.importorskip("gantrymq_replication")

from etcd_servers import start_etcd
from harness import GantryServer, create_topic
from harness.probe import request, route_of
from java_controllers import start_controllers
from polling import wait_until

from gantrymq.client import Client, Message
from gantrymq.errors import GantryError

pytestmark = pytest.mark.interop

SETTINGS = {"enableControllerMode": "true", "mappedFileSizeCommitLog": "1048576", "minInSyncReplicas": "1"}


def controller(running, tmp_path):
    [found] = start_controllers(running, tmp_path, 1)
    return {"controllerAddr": found.address}


def etcd(running, tmp_path):
    [found] = start_etcd(running, tmp_path, 1)
    return {"electionEngine": "etcd", "etcdEndpoints": found.endpoint, "etcdLeaseSeconds": "3"}


def wait_for_master(namesrv, broker, seconds=30.0):
    """Wait until the name server tells that *broker* is the master; return the seconds that took."""
    began, master = time.monotonic(), re.compile(rf'"?0"?:"{broker.broker_address}"')
    wait_until(lambda: master.search(route_of(namesrv, "TBW102") or ""), "a master", seconds, broker.tail)
    return time.monotonic() - began


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
            except GantryError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.05)  # real time: rate of the retries


async def read_all(client, expected, deadline_s=30.0):
    found = set()
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            async for each in client.reader("Orders", start="first"):
                found.add(int(each.body.rstrip(b"x")))
                if expected <= found:
                    break
    return found


def election(broker):
    """What a broker of ours tells of its election."""
    return json.loads(request(broker.broker_address, 907, {})[1])["election"]


def wait_for_set(broker, members, seconds=30.0):
    wait_until(lambda: election(broker)["syncStateSet"] == members, f"set {members}", seconds, broker.tail)


def log_of(broker, store):
    """The bytes of a log that are not zero at its end."""
    return b"".join(each.read_bytes() for each in sorted((store / "commitlog").iterdir())).rstrip(b"\0")


@pytest.mark.parametrize("engine", [pytest.param(controller, marks=pytest.mark.long), etcd])
def test_the_slave_is_elected_when_the_master_is_killed(running, tmp_path, engine):
    settings = {**SETTINGS, **engine(running, tmp_path)}
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv

    def broker(name):
        return running(GantryServer.broker(tmp_path / name, namesrv, settings=settings))

    one = broker("one")
    wait_for_master(namesrv, one)
    create_topic(namesrv, "Orders", queues=2)
    acknowledged: list[int] = []

    async def main():
        async with Client(namesrv) as client:
            await send(client, range(20), acknowledged)
            two = await asyncio.to_thread(broker, "two")
            await asyncio.to_thread(wait_for_set, one, [1, 2])
            await send(client, range(20, 60), acknowledged)
            one.kill()
            began = time.monotonic()
            await send(client, range(60, 61), acknowledged)
            print("killed: without a master for", time.monotonic() - began)
            await send(client, range(61, 100), acknowledged)
            assert await read_all(client, set(acknowledged)) >= set(acknowledged)

            # The old master comes back as a slave.
            again = await asyncio.to_thread(broker, "one")
            await asyncio.to_thread(wait_for_set, two, [1, 2])
            await send(client, range(100, 120), acknowledged)
            assert election(again)["master"] == 2
            epochs = [json.loads(request(each.broker_address, 1007, {})[1])["epochList"] for each in (again, two)]
            assert epochs[0] == epochs[1] and [each["epoch"] for each in epochs[0]] == [1, 2]

            # A planned stop.
            began = time.monotonic()
            stopping = asyncio.create_task(asyncio.to_thread(two.stop))
            await send(client, range(120, 160), acknowledged)
            print("stopped: 40 sends in", time.monotonic() - began)
            assert await stopping == 0
            assert await read_all(client, set(acknowledged)) >= set(acknowledged)
            print(again._err.read_text())
            folders = [tmp_path / name / "store" for name in ("one", "two")]
            assert log_of(again, folders[0])[: len(log_of(two, folders[1]))] == log_of(two, folders[1])

    asyncio.run(main())


@pytest.mark.parametrize("engine", [controller, pytest.param(etcd, marks=pytest.mark.long)])
def test_a_frozen_master_acknowledges_nothing_when_it_wakes(running, tmp_path, engine):
    settings = {**SETTINGS, **engine(running, tmp_path), "controllerHeartBeatTimeoutMills": "3000"}
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    one = running(GantryServer.broker(tmp_path / "one", namesrv, settings=settings))
    wait_for_master(namesrv, one)
    create_topic(namesrv, "Orders", queues=1)
    two = running(GantryServer.broker(tmp_path / "two", namesrv, settings=settings))
    wait_for_set(one, [1, 2])
    header = {
        "producerGroup": "p",
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "0",
        "flag": "0",
        "properties": "",
    }
    assert request(one.broker_address, 10, header, b"before")[0]["code"] == 0
    one.pause()
    try:
        with ThreadPoolExecutor() as threads:
            late = threads.submit(request, one.broker_address, 10, header, b"late")
            print("a new master after", wait_for_master(namesrv, two, 40))
            code = request(two.broker_address, 10, header, b"after")[0]["code"]
            assert code in (0, 12)  # while the frozen one is in the set, nothing is confirmed
            one.resume()
            answer = late.result(30)[0]
    finally:
        one.resume()
    print(answer)
    assert answer["code"] in (12, 14)
    assert "this master is fenced" in answer["remark"] or "slave" in answer["remark"]
    wait_for_set(two, [1, 2])
    assert election(one)["master"] == 2
    assert log_of(one, tmp_path / "one" / "store") == log_of(two, tmp_path / "two" / "store")


@pytest.mark.long
@pytest.mark.parametrize("engine", [controller, etcd])
def test_masters_of_a_set_of_three_are_killed_under_load(running, tmp_path, engine):
    settings = {**SETTINGS, **engine(running, tmp_path), "minInSyncReplicas": "2"}
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv

    def broker(name):
        return running(GantryServer.broker(tmp_path / name, namesrv, settings=settings))

    brokers = {"one": broker("one")}
    wait_for_master(namesrv, brokers["one"])
    create_topic(namesrv, "Orders", queues=1)
    brokers |= {name: broker(name) for name in ("two", "three")}
    wait_for_set(brokers["one"], [1, 2, 3])
    acknowledged: list[int] = []
    longest = []

    def master():
        return next(name for name, each in brokers.items() if each.alive() and election(each)["problem"] == "")

    async def load(client, stopped):
        producer, number = client.producer("p"), 0
        last = time.monotonic()
        while not stopped.is_set():
            with suppress(GantryError):
                result = await producer.send(Message("Orders", b"%d" % number + b"x" * 300), timeout_s=2)
                if result.status.name == "SEND_OK":
                    acknowledged.append(number)
                    longest.append(time.monotonic() - last)
                    last = time.monotonic()
            number += 1
            await asyncio.sleep(0.002)  # real time: rate of the load

    async def main():
        async with Client(namesrv) as client:
            stopped = asyncio.Event()
            loading = asyncio.create_task(load(client, stopped))
            for _ in range(3):
                await asyncio.sleep(2)  # real time: messages before the kill
                name = await asyncio.to_thread(master)
                brokers[name].kill()
                await asyncio.sleep(6)  # real time: longer than the set waits for a dead broker
                brokers[name] = await asyncio.to_thread(broker, name)
                new = await asyncio.to_thread(master)
                await asyncio.to_thread(wait_for_set, brokers[new], [1, 2, 3])
            stopped.set()
            await loading
            found = await read_all(client, set(acknowledged))
            print(len(acknowledged), "acknowledged; longest pauses", sorted(longest)[-4:])
            assert found >= set(acknowledged)
            await asyncio.sleep(1)  # real time: slaves write what they have
            logs = [log_of(each, tmp_path / name / "store") for name, each in brokers.items()]
            assert logs[0] == logs[1] == logs[2]

    asyncio.run(main())
