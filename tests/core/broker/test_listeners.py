"""Named listeners of a broker and its name server: advertised addresses, routes, and clients that use them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from broker_desk import START_MS, settings_for

from gantrymq.broker import BrokerServer
from gantrymq.broker.registering.register_messages import RegisterMessages
from gantrymq.client import Client, Message
from gantrymq.client.reading.queue_reading import read
from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import pack_host
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import simulate

NAMES, HOST = "10.0.0.8", "10.0.0.1"
BOTH = {
    "namesrvAddr": f"{NAMES}:9876",
    "listeners": "external=remoting://0.0.0.0:10931,third=remoting://10.0.0.1:0",
    "advertisedAddresses": "external=broker.example:30931",
}


@asynccontextmanager
async def running(world, plugins, **values):
    """A name server with an external listener, and a broker."""
    own = {"bindAddress": NAMES, "listeners": f"external=remoting://{NAMES}:9886", "kvConfigPath": "/kv.json"}
    names = NameServer(world, Settings(name_server_settings(Path("/home")), own))
    await names.start()
    broker = BrokerServer(world, settings_for(plugins, **{"brokerName": "broker-a", **values}), plugins)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()
        await names.stop()
        await world.workers.close()


def run(plugins, case, **values):
    """Run ``await case(world, broker)`` with both servers."""

    async def main(world):
        async with running(world, plugins, **values) as broker:
            return await case(world, broker)

    return simulate(1, main, start_ms=START_MS)


def identity_of(plugins, **values):
    """The identity of a broker with these settings."""

    async def case(world, broker):
        return broker.identity

    return run(plugins, case, **values)


class Watcher:
    """A service that keeps the `interfaces.Broker`."""

    name = "watcher"

    async def start(self, broker):
        self.broker = broker

    async def stop(self):
        pass


async def broker_addresses(world, namesrv):
    """The addresses in a route and in the cluster info that this listener of the name server gives."""
    async with Client(namesrv, world=world) as client, client.admin as admin:
        route, info = await admin.route("TBW102"), await admin.clusters()
        (broker,), (same,) = route.brokers, info.brokers
        assert broker.addresses == same.addresses
        return broker.addresses


def test_a_client_of_the_external_listener_sends_and_consumes_through_it(plugins):
    async def case(world, broker):
        world.network.refuse(lambda link: link.target[0] == HOST)  # as a firewall does
        async with Client(f"{NAMES}:9886", world=world) as client:
            sent = await client.producer("P").send(Message("TBW102", b"from outside"))
            assert sent.queue.broker_name == "broker-a"
            reader = client.reader(group="G")
            found = [each.body async for each in read(reader, sent.queue, 0, end=1)]
            rows = list(watcher.broker.clients.connections())
            assert {row.connection.listener for row in rows} == {"external"}
        return found

    ports = {"listeners": "external=remoting://0.0.0.0:10931", "advertisedAddresses": "external=broker.example:10931"}
    watcher = Watcher()
    assert run(attrs.evolve(plugins, services=(watcher,)), case, **{**BOTH, **ports}) == [b"from outside"]


def test_routes_have_the_address_of_the_clients_listener(plugins):
    async def case(world, broker):
        assert await broker_addresses(world, f"{NAMES}:9876") == {0: "10.0.0.1:10911"}
        assert await broker_addresses(world, f"{NAMES}:9886") == {0: "broker.example:30931"}
        watcher.broker.registration.change(broker_id=3, ha_address="10.0.0.1:7")
        await world.clock.sleep(2)
        assert await broker_addresses(world, f"{NAMES}:9886") == {3: "broker.example:30931"}

    watcher = Watcher()
    run(attrs.evolve(plugins, services=(watcher,)), case, **BOTH)


def test_without_further_listeners_the_registration_has_no_further_field(plugins):
    async def case(world, broker):
        messages = RegisterMessages(world, broker.identity, broker.tables.topics)
        return [message.ext async for message, _ in messages.whole(None)]

    (ext,) = run(plugins, case)
    assert "listenerAddrs" not in ext
    (ext,) = run(plugins, case, **BOTH)
    assert ext["listenerAddrs"] == "external=broker.example:30931,third=10.0.0.1:40000"
    assert ext["brokerAddr"] == "10.0.0.1:10911"


def test_an_address_is_by_default_the_hosts_with_the_port_of_the_listener(plugins):
    listeners = "a=remoting://0.0.0.0:10931,b=remoting://10.0.0.7:0"
    identity = identity_of(plugins, listeners=listeners)
    assert identity.address == "10.0.0.1:10911"
    assert identity.listeners == {"a": "127.0.0.1:10931", "b": "10.0.0.7:40000"}  # the world's own address, and bound
    identity = identity_of(plugins, listeners=listeners, brokerIP1="192.0.2.1")
    assert identity.address == "192.0.2.1:10911"
    assert identity.listeners == {"a": "192.0.2.1:10931", "b": "192.0.2.1:40000"}


def test_the_main_listener_can_be_advertised_elsewhere_too(plugins):
    identity = identity_of(plugins, advertisedAddresses="default=[2001:db8::1]:30911", brokerIP1="192.0.2.1")
    assert (identity.address, identity.listen_port) == ("[2001:db8::1]:30911", 10911)
    assert identity.packed_host == pack_host("2001:db8::1", 30911)


def test_a_host_name_is_advertised_as_it_is_and_message_ids_have_its_address(plugins):
    async def main(world):
        world.network.names["broker-0.example"] = "10.0.0.77"
        values = {"brokerIP1": "broker-0.example", "bindAddress": "0.0.0.0", "namesrvAddr": f"{NAMES}:9876"}
        async with running(world, plugins, **values) as broker:
            assert broker.identity.address == "broker-0.example:10911"
            assert await broker_addresses(world, f"{NAMES}:9876") == {0: "broker-0.example:10911"}
            async with Client(f"{NAMES}:9876", world=world) as client:
                return await client.producer("P").send(Message("TBW102", b"x"))

    sent = simulate(1, main, start_ms=START_MS)
    assert sent.offset_id.startswith(pack_host("10.0.0.77", 10911).hex().upper())


def test_a_name_that_does_not_resolve_is_told_and_ids_have_the_hosts_own_address(plugins, caplog):
    identity = identity_of(plugins, brokerIP1="nowhere.example")
    assert identity.address == "nowhere.example:10911"
    assert identity.packed_host == pack_host("10.0.0.1", 10911)
    (warning,) = [each.getMessage() for each in caplog.records if "nowhere.example" in each.getMessage()]
    assert warning.startswith("the name nowhere.example, which this broker advertises, cannot be resolved (")
    assert warning.endswith("): message ids contain 10.0.0.1 instead")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b=h:1", "no listener is called b (there is default, a)"),
        ("a=h:1,a=h:2", "a occurs twice"),
        ("a=h", "'h' is not host:port"),
        ("a=h:0", "a=h:0 is not the address of a host"),
        ("a=300.1.1.1:1", "a=300.1.1.1:1 is not the address of a host"),
        ("h:1", "h:1 does not start with a name"),
    ],
)
def test_advertised_addresses_that_make_no_sense_are_refused_before_anything_opens(plugins, text, problem):
    settings = settings_for(plugins, listeners="a=remoting://h:0", advertisedAddresses=text)
    with pytest.raises(ConfigError) as refused:
        BrokerServer(None, settings, plugins)
    assert str(refused.value).startswith("the test: advertisedAddresses: ")
    assert problem in str(refused.value)
    assert str(refused.value).endswith(", several separated by commas")


def test_a_listener_that_cannot_be_opened_stops_the_start_and_frees_the_other_ports(plugins):
    async def main(world):
        settings = settings_for(plugins, listeners="a=remoting://10.0.0.1:10921,b=remoting://10.0.0.1:10909")
        broker = BrokerServer(world, settings, plugins)
        with pytest.raises(ConfigError, match="listener b cannot listen on 10.0.0.1:10909: Address already in use; "):
            await broker.start()
        for port in (10909, 10911, 10921):
            with pytest.raises(ConnectionRefusedError):
                await world.network.connect(HOST, port, lambda: None)
        await world.workers.close()

    simulate(1, main, start_ms=START_MS)


def test_a_stopped_broker_listens_nowhere(plugins):
    async def main(world):
        async with running(world, plugins, **BOTH):
            pass
        for port in (10909, 10911, 10931, 40000):
            with pytest.raises(ConnectionRefusedError):
                await world.network.connect(HOST, port, lambda: None)

    simulate(1, main, start_ms=START_MS)
