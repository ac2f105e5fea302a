"""Routes for clients of named listeners: the address that a broker advertises for the listener of the same name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.loose_json import dumps, loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import simulate

EXTERNAL, OTHER = SimpleNamespace(listener="external"), SimpleNamespace(listener="other")
ADDRESSES = {"listenerAddrs": "external=broker-a.example:10931,internal=10.0.0.5:10921"}


def route(desk, connection=None, **fields):
    return loads(desk.ask(105, {"topic": "T", **fields}, connection=connection).payload)


def addresses(answer):
    return {each["brokerName"]: each["brokerAddrs"] for each in answer["brokerDatas"]}


def test_a_route_has_the_address_of_the_clients_listener(desk):
    desk.register(**ADDRESSES)
    desk.register(brokerName="broker-b", brokerAddr="127.0.0.1:20911")
    registered = {"broker-a": {"0": "127.0.0.1:10911"}, "broker-b": {"0": "127.0.0.1:20911"}}
    assert addresses(route(desk)) == addresses(route(desk, OTHER)) == registered
    assert addresses(route(desk, EXTERNAL)) == {**registered, "broker-a": {"0": "broker-a.example:10931"}}
    assert addresses(route(desk)) == registered  # the tables are as before


def test_so_have_cluster_info_and_the_list_of_system_topics(desk):
    desk.register(**ADDRESSES)
    registered, external = "127.0.0.1:10911", "broker-a.example:10931"
    for connection, address in ((None, registered), (OTHER, registered), (EXTERNAL, external)):
        info = loads(desk.ask(106, connection=connection).payload)
        assert info["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {0: address}
        assert loads(desk.ask(304, connection=connection).payload)["brokerAddr"] == address


def test_a_slave_has_addresses_of_its_own_also_as_the_acting_master(make_desk):
    desk = make_desk(supportActingMaster=True)
    desk.register(**ADDRESSES)
    desk.register(broker_id=1, enableActingMaster="true", listenerAddrs="external=slave.example:10931")
    both = {"0": "broker-a.example:10931", "1": "slave.example:10931"}
    assert addresses(route(desk, EXTERNAL)) == {"broker-a": both}
    desk.ask(104, {"clusterName": "C", "brokerName": "broker-a", "brokerId": "0", "brokerAddr": "127.0.0.1:10911"})
    assert addresses(route(desk, EXTERNAL)) == {"broker-a": {"0": "slave.example:10931"}}
    assert addresses(route(desk)) == {"broker-a": {"0": "127.0.0.1:10912"}}


def test_filter_servers_are_found_by_the_address_in_the_route(desk):
    desk.register(**ADDRESSES)
    desk.service.tables.filter_servers[next(iter(desk.service.tables.live))] = ["10.0.0.9:1"]
    assert route(desk, EXTERNAL)["filterServerTable"] == {"broker-a.example:10931": ["10.0.0.9:1"]}
    assert route(desk)["filterServerTable"] == {"127.0.0.1:10911": ["10.0.0.9:1"]}


def test_other_zones_are_left_out_as_ever(desk):
    desk.register(**ADDRESSES, __ZONE_NAME="north")
    desk.register(brokerName="broker-b", brokerAddr="127.0.0.1:20911", __ZONE_NAME="south")
    found = route(desk, EXTERNAL, __ZONE_NAME="north", __ZONE_MODE="true")
    assert addresses(found) == {"broker-a": {"0": "broker-a.example:10931"}}


def test_the_registered_address_stays_the_key(desk):
    """Write permission, heartbeats, the member group and unregistration know no other address."""
    desk.register(**ADDRESSES)
    assert [key.address for key in desk.service.tables.live] == ["127.0.0.1:10911"]
    group = loads(desk.ask(901, {"clusterName": "C", "brokerName": "broker-a"}, connection=EXTERNAL).payload)
    assert group["brokerMemberGroup"]["brokerAddrs"] == {0: "127.0.0.1:10911"}
    assert desk.ask(205, {"brokerName": "broker-a"}, connection=EXTERNAL).ext == {"wipeTopicCount": "2"}
    gone = {"clusterName": "C", "brokerName": "broker-a", "brokerId": "0"}
    desk.ask(104, {**gone, "brokerAddr": "broker-a.example:10931"})
    assert desk.service.tables.brokers
    desk.ask(104, {**gone, "brokerAddr": "127.0.0.1:10911"})
    assert not desk.service.tables.brokers
    assert not desk.service.tables.live


def details(answer):
    brokers = {each["brokerName"]: each.get("listenerAddrs") for each in answer["brokerDatas"]}
    return brokers, {each["brokerName"]: each.get("attributes") for each in answer["queueDatas"]}


def test_a_broker_learns_the_addresses_of_all_listeners_and_the_attributes_of_the_topic(make_desk):
    desk = make_desk(supportActingMaster=True)
    desk.register(**ADDRESSES)
    desk.register(broker_id=1, listenerAddrs="external=slave.example:10931")
    desk.register(brokerName="broker-b", brokerAddr="127.0.0.1:20911", enableActingMaster="true", brokerId="2")
    assert details(route(desk)) == ({"broker-a": None, "broker-b": None}, {"broker-a": None, "broker-b": None})
    master = {"external": "broker-a.example:10931", "internal": "10.0.0.5:10921"}
    both = {"0": master, "1": {"external": "slave.example:10931"}}
    for connection in (None, EXTERNAL):  # through which the broker came changes brokerAddrs only
        found = route(desk, connection, withDetails="true")
        assert details(found) == ({"broker-a": both, "broker-b": {}}, {"broker-a": {}, "broker-b": {}})
        assert addresses(found) == addresses(route(desk, connection))

    typed = {"attributes": {"message.type": "FIFO"}}
    for body in (
        {"queueDatas": [{"brokerName": "broker-a", "perm": 6, **typed}]},
        {"queueDatas": [{"brokerName": "broker-b"}]},
    ):
        assert desk.ask(217, {"topic": "T"}, dumps(body)).code == 0
    assert details(route(desk, withDetails="true"))[1] == {"broker-a": {"message.type": "FIFO"}, "broker-b": {}}
    assert desk.ask(205, {"brokerName": "broker-a"}).code == 0
    assert details(route(desk, withDetails="true"))[1]["broker-a"] == {"message.type": "FIFO"}


@pytest.mark.parametrize("attributes", [7, ["a"], {"message.type": {}}])
def test_attributes_that_cannot_be_read_are_refused(desk, attributes):
    desk.register()
    body = dumps({"queueDatas": [{"brokerName": "broker-a", "attributes": attributes}]})
    assert desk.ask(217, {"topic": "New"}, body).code == 1


def test_each_registration_replaces_the_addresses(desk):
    desk.register(**ADDRESSES)
    desk.register(listenerAddrs="external=elsewhere.example:1")
    assert addresses(route(desk, EXTERNAL)) == {"broker-a": {"0": "elsewhere.example:1"}}
    desk.register()
    assert addresses(route(desk, EXTERNAL)) == {"broker-a": {"0": "127.0.0.1:10911"}}


def test_addresses_that_cannot_be_read_are_refused(desk):
    answer = desk.register(listenerAddrs="external")
    assert (answer.code, answer.remark) == (1, "listenerAddrs=external: '' is not host:port")
    assert desk.service.tables.brokers == {}


def run(case, **values):
    """Run ``await case(world, server)`` with a name server that is not started, and stop it."""

    async def main(world):
        given = {"bindAddress": "10.0.0.8", "kvConfigPath": "/kv.json", **values}
        server = NameServer(world, Settings(name_server_settings(), given))
        try:
            return await case(world, server)
        finally:
            await server.stop()

    return simulate(1, main)


def test_all_listeners_serve_and_close_with_the_server():
    async def case(world, server):
        main, client = await server.start(), RemotingClient(world)
        assert server.listeners == {"a": ("10.0.0.8", 9877), "b": ("10.0.0.9", 40000)}
        for host, port in (main, *server.listeners.values()):
            assert (await client.call(f"{host}:{port}", request(106))).code == 0
        await client.close()
        await server.stop()
        assert server.listeners == {}
        for host, port in (main, ("10.0.0.8", 9877), ("10.0.0.9", 40000)):
            with pytest.raises(ConnectionRefusedError):
                await world.network.connect(host, port, lambda: None)

    run(case, listeners="a=remoting://10.0.0.8:9877,b=remoting://10.0.0.9:0")


def test_one_that_cannot_be_opened_closes_the_main_one():
    async def case(world, server):
        with pytest.raises(ConfigError, match=r"listener a cannot listen on 10.0.0.8:9876: .* in listeners"):
            await server.start()
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect("10.0.0.8", 9876, lambda: None)

    run(case, listeners="a=remoting://10.0.0.8:9876")
