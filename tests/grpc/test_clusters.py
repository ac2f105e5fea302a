"""gRPC clients of several brokers: two masters, a slave, and a name server, each broker in a process of its own."""

import pytest

pytest.importorskip("gantrymq_grpc")
pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_storage_mmap")

from acting_groups import MASTER, OTHER, SLAVE, Group
from grpc_broker import ENDPOINTS, Sdk, consumer_settings, receive_request, send_request
from grpc_served import Client
from ha_pairs import simulate_pair

from gantrymq.model.role import Role
from gantrymq.model.topic import TopicConfig
from gantrymq_grpc.definitions import METHODS, AddressScheme, Code, Endpoints, Permission, Resource

UNAVAILABLE = 14
PORT = 8081


class Town(Group):
    """Master and slave of broker-a, the master of broker-b; topic T is on both, topic A on broker-a only."""

    def __init__(self, pair, listeners, advertised=""):
        super().__init__(pair)
        for each in (self.master, self.slave, self.other):
            if each.host in listeners:
                each.settings["listeners"] = f"sdk=grpc://{each.host}:{PORT}"
        self.master.settings["advertisedAddresses"] = advertised

    async def start(self):
        await super().start()
        await self.topic("A", self.master)
        await self.copied()
        await self.clock.sleep(6)  # routes are renewed every five seconds

    async def topic(self, name, *members, kind="NORMAL", perm=6):
        config = TopicConfig(name, 2, 2, perm, attributes={"message.type": kind})
        for each in members:
            each.cluster.broker.topics.put(config)
        await self.clock.sleep(1)

    async def sdk(self, member, client_id="c1"):
        _, client = await self.pair.world.network.connect(member.host, PORT, Client)
        return Sdk(None, client, client_id, {})


def simulate_town(main, listeners=(MASTER, SLAVE, OTHER), advertised=""):
    async def run(pair):
        town = Town(pair, listeners, advertised)
        await town.start()
        await main(town)

    simulate_pair(run)


async def route(sdk, topic="T", endpoints=ENDPOINTS):
    request = METHODS["QueryRoute"].request(topic=Resource(name=topic), endpoints=endpoints)
    return await sdk.call("QueryRoute", request)


async def places(sdk, topic="T", **more):
    """Return the address of each broker in a route."""
    answer = await route(sdk, topic, **more)
    assert answer.status.code == Code.OK, answer.status
    found = {}
    for queue in answer.message_queues:
        (address,) = queue.broker.endpoints.addresses
        found[queue.broker.name] = f"{address.host}:{address.port}"
    return found


ASKED = "127.0.0.1:17881"  # ENDPOINTS
BOTH = {"broker-a": f"{MASTER}:{PORT}", "broker-b": f"{OTHER}:{PORT}"}


def test_routes_name_the_own_address_of_each_master():
    async def main(town):
        for member in (town.master, town.other, town.slave):  # a slave knows its master's
            sdk = await town.sdk(member)
            assert await places(sdk) == BOTH
            assert await places(sdk, "A") == {"broker-a": BOTH["broker-a"]}
            request = METHODS["QueryAssignment"].request(
                topic=Resource(name="T"), group=Resource(name="G"), endpoints=ENDPOINTS
            )
            found = [each.message_queue for each in (await sdk.call("QueryAssignment", request)).assignments]
            assert sorted((each.broker.name, each.id) for each in found) == [("broker-a", -1), ("broker-b", -1)]
        answer = await route(sdk)
        assert [(each.id, each.broker.name, each.permission) for each in answer.message_queues] == [
            (number, broker, Permission.READ_WRITE) for number in range(4) for broker in BOTH
        ]  # a client that goes through them asks one broker after the other
        assert {each.broker.endpoints.scheme for each in answer.message_queues} == {AddressScheme.IPv4}
        assert (await route(sdk, "unknown")).status.code == Code.TOPIC_NOT_FOUND

    simulate_town(main)


def test_the_only_listener_of_a_cluster_is_named_as_the_client_asked_it(caplog):
    async def main(town):
        sdk = await town.sdk(town.master)
        assert await places(sdk) == await places(sdk, "A") == {"broker-a": ASKED}
        assert caplog.text.count("broker broker-b has queues of topic T and no gRPC listener sdk") == 1
        await town.topic("B", town.other)
        answer = await route(sdk, "B")
        assert (answer.status.code, "topic B is on broker-b only" in answer.status.message) == (40402, True)

    simulate_town(main, [MASTER])


def test_a_client_that_asked_several_brokers_gets_the_address_of_the_one_that_is_left():
    """The others would refuse requests for it when they run again, until the client asks for routes."""

    async def main(town):
        sdk = await town.sdk(town.master)
        several = Endpoints(scheme=AddressScheme.IPv4)
        for host in (OTHER, MASTER):
            several.addresses.add(host=host, port=PORT)
        assert await places(sdk, endpoints=several) == {"broker-a": f"{MASTER}:{PORT}"}
        mapped = Endpoints(scheme=AddressScheme.IPv4)
        for port in (17881, 17882):
            mapped.addresses.add(host="127.0.0.1", port=port)
        (asked,) = {
            each.broker.endpoints.SerializeToString() for each in (await route(sdk, "T", mapped)).message_queues
        }
        assert asked == mapped.SerializeToString()

    simulate_town(main, [MASTER])


def test_an_advertised_address_is_named_always():
    async def main(town):
        sdk = await town.sdk(town.master)
        assert await places(sdk, "A") == {"broker-a": "mq.example.org:443"}
        assert (await route(sdk, "A")).message_queues[0].broker.endpoints.scheme == AddressScheme.DOMAIN_NAME

    simulate_town(main, [MASTER], "sdk=mq.example.org:443")


def test_a_request_for_another_broker_is_refused_with_its_address():
    async def main(town):
        sdk, other = await town.sdk(town.master), await town.sdk(town.other)
        await places(sdk)
        first, _ = await sdk.all("ReceiveMessage", receive_request(broker="broker-b"))
        assert (first.status.code, f"send it to {OTHER}:{PORT}" in first.status.message) == (Code.BAD_REQUEST, True)
        assert await other.receive(broker="broker-b") == []
        await other.send()
        (message,) = await other.receive(broker="broker-b")
        for answer in (await sdk.ack(message), (await sdk.change(message, 20)).status):
            assert answer.code == Code.INVALID_RECEIPT_HANDLE
            assert f"send it to {OTHER}:{PORT}" in answer.message
        assert (await other.ack(message)).code == Code.OK
        first, _ = await sdk.all("ReceiveMessage", receive_request(broker="broker-x"))
        assert "the address of that broker in the route" in first.status.message

    simulate_town(main)


def test_a_simple_consumer_does_not_wait_long_at_one_of_two_brokers():
    async def main(town):
        sdk = await town.sdk(town.master)
        await places(sdk)
        for topic, least, most in (("T", 4, 6), ("A", 19, 21)):
            await places(sdk, topic)
            began = town.clock.monotonic()
            assert await sdk.receive(topic=topic, polling=20) == []
            assert least < town.clock.monotonic() - began < most
        began = town.clock.monotonic()
        assert await sdk.receive(polling=20, auto_renew=True) == []
        assert town.clock.monotonic() - began > 19

    simulate_town(main)


def test_a_broker_without_requests_for_routes_does_not_hold_a_simple_consumer_either():
    """SDKs ask for routes at one address, and receive from all brokers of the route."""

    async def main(town):
        sdk = await town.sdk(town.other)
        for _ in range(2):
            began = town.clock.monotonic()
            assert await sdk.receive(polling=20) == []
            assert 4 < town.clock.monotonic() - began < 7
        await town.topic("B", town.other)
        began = town.clock.monotonic()
        assert await sdk.receive(topic="B", polling=20) == []
        assert town.clock.monotonic() - began > 19

    simulate_town(main)


def test_a_broker_that_is_down_is_left_out_of_routes():
    async def main(town):
        sdk = await town.sdk(town.master)
        assert await places(sdk) == BOTH
        town.other.process.kill()
        began = town.clock.monotonic()
        while await places(sdk) != {"broker-a": BOTH["broker-a"]}:
            await town.clock.sleep(0.5)
        assert town.clock.monotonic() - began < 11
        await town.other.start()
        town.other.cluster.broker.topics.put(TopicConfig("T", 4, 4))
        await town.clock.sleep(12)
        assert await places(sdk) == BOTH

    simulate_town(main)


def test_a_slave_serves_no_messages_and_streams_end_when_the_role_changes():
    async def main(town):
        slave, master = await town.sdk(town.slave, "s"), await town.sdk(town.master, "m")
        first, *_ = await slave.all("ReceiveMessage", receive_request())
        assert (first.status.code, "ask its master" in first.status.message) == (Code.INTERNAL_SERVER_ERROR, True)
        refused = await slave.call("SendMessage", METHODS["SendMessage"].request())
        assert refused.status.code != Code.OK
        stream, _ = await master.telemetry(consumer_settings("G", "T"))
        at_slave, _ = await slave.telemetry(consumer_settings("G", "T"))
        held = master.open("ReceiveMessage", receive_request(polling=20))
        await town.clock.sleep(1)
        await town.master.process.run(town.master.cluster.broker.role.change(Role.REPLICA, 2))
        await town.clock.sleep(0.5)
        assert (await stream.next(), stream.stream.status) == (None, UNAVAILABLE)
        assert "role of this broker has changed" in stream.stream.text
        assert (await master.client.ended(held)).status in (0, UNAVAILABLE)  # without messages
        assert not at_slave.stream.ended
        await town.master.process.run(town.master.cluster.broker.role.change(Role.MASTER, 3))
        assert await master.receive(polling=5) == []
        await master.send()
        assert len(await master.receive()) == 1

    simulate_town(main)


def test_an_acting_master_serves_receives_and_a_returned_master_serves_again():
    async def main(town):
        other, slave = await town.sdk(town.other), await town.sdk(town.slave, "s")
        assert await places(other) == BOTH
        stream, _ = await slave.telemetry(consumer_settings("G", "T"))
        master = await town.sdk(town.master, "m")
        await master.receive(batch=1)
        for number in range(3):
            await master.send(body=b"%d" % number)
        await town.copied()
        await town.clock.sleep(2)
        town.master.process.kill()
        acting = {**BOTH, "broker-a": f"{SLAVE}:{PORT}"}
        began = town.clock.monotonic()
        while await places(other) != acting:
            await town.clock.sleep(0.5)
        assert town.clock.monotonic() - began < 11
        assert town.slave.role is Role.ACTING_MASTER
        assert await places(slave) == acting
        queues = [each for each in (await route(other)).message_queues if each.broker.name == "broker-a"]
        assert {each.permission for each in queues} == {Permission.READ}
        assert (await stream.next(), stream.stream.status) == (None, UNAVAILABLE)  # clients ask again
        began = town.clock.monotonic()
        found = [*await slave.receive(batch=1), *await slave.receive(batch=1)]
        assert town.clock.monotonic() - began < 1
        for each in found:
            assert (await slave.ack(each)).code == Code.OK
        (message,) = await slave.receive(batch=1, invisible=10)
        assert (await slave.change(message, 10)).status.code == Code.OK
        began = town.clock.monotonic()
        (again,) = await slave.receive(polling=20, invisible=300)
        assert (again.body, town.clock.monotonic() - began) == (message.body, pytest.approx(10, abs=0.5))
        assert again.system_properties.delivery_attempt == 2
        refused = await slave.call("SendMessage", send_request())
        assert refused.status.code == Code.INTERNAL_SERVER_ERROR
        assert "send to another broker name" in refused.status.message
        await town.master.start()
        sdk = await town.sdk(town.master)
        await town.clock.sleep(1)
        assert [each.body for each in await sdk.receive(polling=5)] == [message.body]  # it was not acknowledged
        await sdk.send()
        assert len(await sdk.receive(polling=5)) == 1
        await town.clock.sleep(12)
        assert await places(other) == await places(slave) == BOTH

    simulate_town(main)


def test_messages_of_push_consumers_are_renewed_at_an_acting_master():
    async def main(town):
        master = await town.sdk(town.master, "m")
        await master.receive()
        await master.send()
        await town.copied()
        await town.clock.sleep(2)
        town.master.process.kill()
        while town.slave.role is not Role.ACTING_MASTER:
            await town.clock.sleep(0.5)
        sdk, other = await town.sdk(town.slave, "s1"), await town.sdk(town.slave, "s2")
        await sdk.telemetry(consumer_settings("G", "T"))
        (message,) = await sdk.receive(auto_renew=True)
        await town.clock.sleep(100)
        assert await other.receive() == []
        assert (await sdk.ack(message)).code == Code.OK
        assert await other.receive() == []

    simulate_town(main)
