"""The whole name server, over loopback sockets and a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.loose_json import dumps, loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.responses import MAX_ITEMS
from gantrymq.remoting.server import RemotingServer
from gantrymq.world.clock import TimeSlices
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings

BODY = dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {"T": {}, "U": {}}}})


class Town:
    """Name servers and clients of one test."""

    def __init__(self, world: Any, home: Any) -> None:
        self.world, self.home = world, home
        self.servers: list[NameServer] = []
        self.clients: list[RemotingClient] = []

    async def name_server(self, **values: Any) -> str:
        values = {"listenPort": 0, "bindAddress": "127.0.0.1", **values}
        server = NameServer(self.world, Settings(name_server_settings(self.home / str(len(self.servers))), values))
        self.servers.append(server)
        host, port = await server.start()
        return f"{host}:{port}"

    def client(self) -> RemotingClient:
        self.clients.append(RemotingClient(self.world))
        return self.clients[-1]

    async def stop(self) -> None:
        for client in self.clients:
            await client.close()
        for server in self.servers:
            await server.stop()


@pytest.fixture
def run(world, tmp_path) -> Callable[[Callable[[Town], Awaitable[None]]], None]:
    async def stage(play: Callable[[Town], Awaitable[None]]) -> None:
        town = Town(world, tmp_path)
        try:
            await asyncio.wait_for(play(town), 20)
        finally:
            await town.stop()

    return lambda play: asyncio.run(stage(play))


def registration(broker_id: int = 0, address: str = "127.0.0.1:10911", **fields: str) -> Command:
    ext = {
        "brokerName": "broker-a",
        "brokerAddr": address,
        "clusterName": "C",
        "haServerAddr": "127.0.0.1:10912",
        "brokerId": str(broker_id),
        **fields,
    }
    return request(103, ext, BODY)


def route() -> Command:
    return request(105, {"topic": "T"})


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop; no time passes on the clock of the world."""
    while not condition():  # noqa: ASYNC110  # what is waited for sets no event
        await asyncio.sleep(0)


def test_a_broker_registers_and_a_client_finds_it(run):
    async def play(town: Town) -> None:
        address = await town.name_server()
        assert (await town.client().call(address, registration())).code == 0
        answer = await town.client().call(address, route())
        assert loads(answer.payload)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}

    run(play)


def test_a_broker_is_gone_with_its_connection(run, clock):
    async def play(town: Town) -> None:
        address = await town.name_server()
        broker, client = town.client(), town.client()
        await broker.call(address, registration())
        await client.call(address, registration(1, "127.0.0.1:2", brokerName="broker-b"))
        broker.connected(address).close()
        tables = town.servers[0].service.tables

        def gone() -> bool:
            clock.advance(0)
            return "broker-a" not in tables.brokers

        await until(gone)
        assert set(tables.brokers) == {"broker-b"}

    run(play)


def test_a_broker_that_registers_anew_elsewhere_outlives_its_old_connection(run, clock):
    async def play(town: Town) -> None:
        address = await town.name_server()
        old, new = town.client(), town.client()
        await old.call(address, registration())
        await new.call(address, registration())
        closed = asyncio.Event()
        old.on_close(lambda *_: closed.set())
        await old.close()
        await closed.wait()
        await new.call(address, request(106))
        clock.advance(0)
        assert (await new.call(address, route())).code == 0

    run(play)


def test_a_silent_broker_is_dropped_by_the_scan(run, clock):
    async def play(town: Town) -> None:
        address = await town.name_server()
        broker, client = town.client(), town.client()
        await broker.call(address, registration(heartbeatTimeoutMillis="7000"))
        clock.advance(5)  # first scan
        assert (await client.call(address, route())).code == 0
        clock.advance(2)
        assert (await client.call(address, route())).code == 0
        clock.advance(3)  # second scan, at 10 s
        assert (await client.call(address, route())).code == 17
        await until(lambda: broker.connected(address) is None)  # its connection was cut

    run(play)


def test_idle_connections_are_closed(run, clock):
    async def play(town: Town) -> None:
        address = await town.name_server()
        client = town.client()
        await client.call(address, request(106))
        clock.advance(119)
        assert client.connected(address) is not None
        clock.advance(2)
        await until(lambda: client.connected(address) is None)

    run(play)


def test_key_values_survive_a_restart(run, tmp_path):
    async def play(town: Town) -> None:
        path = str(tmp_path / "kv.json")
        first = await town.name_server(kvConfigPath=path)
        put = request(100, {"namespace": "N", "key": "k", "value": "v"})
        assert (await town.client().call(first, put)).code == 0
        second = await town.name_server(kvConfigPath=path)
        answer = await town.client().call(second, request(101, {"namespace": "N", "key": "k"}))
        assert answer.ext == {"value": "v"}

    run(play)


def test_two_name_servers_know_their_own_brokers(run):
    async def play(town: Town) -> None:
        one, two = await town.name_server(), await town.name_server()
        client = town.client()
        await client.call(one, registration())
        assert [(await client.call(address, route())).code for address in (one, two)] == [0, 17]

    run(play)


class Inbox:
    """A broker that records received requests."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Command] = asyncio.Queue()

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            self.told.put_nowait(command)


def test_brokers_are_told_of_a_new_smallest_id(run):
    async def play(town: Town) -> None:
        inbox = Inbox()
        slave = RemotingServer(town.world, inbox)
        host, port = await slave.start("127.0.0.1", 0)
        address = await town.name_server(notifyMinBrokerIdChanged=True)
        broker = town.client()
        await broker.call(address, registration(2, f"{host}:{port}", enableActingMaster="true"))
        await broker.call(address, registration(1, "127.0.0.1:1", enableActingMaster="true"))
        told = await inbox.told.get()
        assert (told.code, told.is_oneway) == (905, True)
        assert told.ext == {
            "minBrokerId": "1",
            "minBrokerAddr": "127.0.0.1:1",
            "haBrokerAddr": "127.0.0.1:10912",
        }
        await slave.stop()

    run(play)


def test_a_broker_that_cannot_be_notified_does_not_affect_others(run, caplog):
    async def play(town: Town) -> None:
        address = await town.name_server(notifyMinBrokerIdChanged=True)
        broker = town.client()
        await broker.call(address, registration(2, "no address"))
        await broker.call(address, registration(1, "127.0.0.1:1"))
        await until(lambda: "was not told" in caplog.text)
        assert (await broker.call(address, request(106))).code == 0

    run(play)


def test_a_taken_port_is_a_sentence(run):
    async def play(town: Town) -> None:
        _, port = (await town.name_server()).split(":")
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}.*listenPort"):
            await town.name_server(listenPort=int(port))

    run(play)


def test_an_address_of_another_host_is_not_blamed_on_the_port(run):
    async def play(town: Town) -> None:
        with pytest.raises(ConfigError, match=r"300.1.1.1:0: .*; set bindAddress to an address of this host$"):
            await town.name_server(bindAddress="300.1.1.1")

    run(play)


def test_a_graceful_stop_sends_clients_away_first(run, clock):
    async def play(town: Town) -> None:
        address = await town.name_server(enableShutdownGracefully=True, shutdownWaitTimeSeconds=30)
        client = town.client()
        await client.call(address, request(106))
        before = clock.now
        await town.servers[0].stop()
        assert clock.now == before + 30
        await town.servers[0].stop()  # a second time is harmless
        assert clock.now == before + 30

    run(play)


def test_an_answer_over_the_frame_limit_becomes_an_error(run):
    async def play(town: Town) -> None:
        address = await town.name_server()
        for shard in range(5):
            names = {f"T{shard}-{number}".ljust(40_000, "x"): {} for number in range(100)}
            body = dumps({"topicConfigSerializeWrapper": {"topicConfigTable": names}})
            command = registration(brokerName=f"broker-{shard}", brokerAddr=f"127.0.0.1:{shard + 1}")
            command.body = body
            assert (await town.client().call(address, command)).code == 0
        answer = await town.client().call(address, request(206))
        assert (answer.code, "limit" in (answer.remark or "")) == (1, True)

    run(play)


def test_lists_of_thousands_of_names_are_made_in_slices(run, monkeypatch):
    async def play(town: Town) -> None:
        address = await town.name_server()
        names = [f"T{number:05}" for number in range(3000)]
        command = registration()
        command.body = dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {name: {} for name in names}}})
        client, other = town.client(), town.client()
        assert (await client.call(address, command)).code == 0
        items = slices = 0
        item_done, sleep = TimeSlices.item_done, town.world.clock.sleep

        async def counted(self: TimeSlices) -> None:
            nonlocal items
            items += 1
            await item_done(self)

        async def slept(seconds: float) -> None:
            nonlocal slices
            slices += not seconds
            await sleep(seconds)

        monkeypatch.setattr(TimeSlices, "item_done", counted)
        monkeypatch.setattr(town.world.clock, "sleep", slept)
        for code, ext in ((206, None), (224, {"cluster": "C"})):
            items = slices = 0
            listed, _ = await asyncio.gather(
                client.call(address, request(code, ext)), other.call(address, request(106))
            )
            assert listed.payload == dumps({"topicList": names})
            assert items == len(names) + 1
            assert slices >= items // MAX_ITEMS

    run(play)
