import asyncio
import json

import pytest

from gantrymq.client import Client
from gantrymq.client.calls.connection_config import ConnectionConfig
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import acquire_instance
from gantrymq.client.connection.registration import ConsumerInfo
from gantrymq.errors import ClientError, ConfigError
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

BEAT, LEAVE, ROUTE = RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.GET_ROUTEINFO_BY_TOPIC


def beats(peer) -> list[dict]:
    return [json.loads(request.payload) for request in peer.of(BEAT)]


class Member(Part):
    """A consumer of group G, as far as its instance knows."""

    def _register(self, instance):
        info = ("G", "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", lambda: [Subscription("T")])
        instance.registration.add_consumer(ConsumerInfo(*info))

    async def _unregister(self, instance):
        await instance.registration.remove_consumer("G")


def member_of(client):
    member = Member()
    member.join(client._started())
    return member


def test_heartbeats_begin_with_the_first_route_and_come_every_30_seconds(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await world.clock.sleep(10)
            assert not beats(c.brokers["a"])  # no broker is known
            await producer.queues("T")
            await world.clock.sleep(1)
            assert [len(beats(peer)) for peer in c.brokers.values()] == [1, 1]
            await world.clock.sleep(60)
            assert [len(beats(peer)) for peer in c.brokers.values()] == [3, 3]
            assert beats(c.brokers["a"])[0]["producerDataSet"] == [{"groupName": "P"}]

    simulate(work)


def test_routes_are_refreshed_every_30_seconds(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await world.clock.sleep(95)
            assert len(c.ns.of(ROUTE)) == 4

    simulate(work)


def test_refresh_outlives_a_name_server_that_is_away(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await c.ns.stop()
            await world.clock.sleep(65)
            await c.ns.start()
            c.queues = 2
            await world.clock.sleep(30)
            assert len(await producer.queues("T")) == 4

    simulate(work)


def test_closing_tells_every_broker(simulate, cluster):
    async def work(world):
        async with cluster(world) as c:
            async with (
                Client(c.namesrv, world=world) as client,
                client.producer("P") as producer,
                Client(c.namesrv, world=world) as other,
                member_of(other) as member,
            ):
                await producer.queues("T")
                await member._started().routes.refresh("T")
            for peer in c.brokers.values():
                left = {(r.ext.get("producerGroup"), r.ext.get("consumerGroup")) for r in peer.of(LEAVE)}
                assert left == {("P", None), (None, "G")}

    simulate(work)


def test_broker_that_does_not_answer_does_not_hold_the_others_up(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[BEAT] = None
            await producer.queues("T")
            await world.clock.sleep(1)
            assert len(beats(c.brokers["b"])) == 1

    simulate(work)


def test_consumer_is_seen_with_what_it_reads(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, member_of(client) as member:
            await member.wait_ready("T")
            await member._started().routes.refresh("T")
            await world.clock.sleep(1)
            (seen,) = beats(c.brokers["a"])[-1]["consumerDataSet"]
            assert (seen["groupName"], seen["consumeType"], seen["messageModel"]) == (
                "G",
                "CONSUME_ACTIVELY",
                "CLUSTERING",
            )
            assert [(s["topic"], s["subString"], s["subVersion"]) for s in seen["subscriptionDataSet"]] == [
                ("T", "*", 0)
            ]

    simulate(work)


def test_admin_and_readers_register_nowhere(simulate, cluster):
    async def work(world):
        async with cluster(world) as c:
            async with (
                Client(c.namesrv, world=world) as client,
                client.admin as admin,
                client.reader("T", group="G") as reader,
            ):
                await admin.route("T")
                await reader.queues()
                await world.clock.sleep(61)
            assert not any(peer.asked for peer in c.brokers.values())

    simulate(work)


def test_clients_of_one_instance_name_share_connections(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            options = {"world": world, "instance_name": "one"}
            async with (
                Client(c.namesrv, **options) as client,
                client.producer("P") as producer,
                Client(c.namesrv, **options) as second,
                member_of(second),
            ):
                await producer.queues("T")
                await world.clock.sleep(1)
                assert len(c.brokers["a"].connections) == 1
                assert beats(c.brokers["a"])[-1]["clientID"] == "127.0.0.1@one"
                with pytest.raises(ClientError, match="P is already in use"):
                    second.producer("P")
                with pytest.raises(ClientError, match="G is already in use"):
                    member_of(client)
                async with Client(c.namesrv, **options) as third, third.producer("Q"):
                    pass
                await producer.queues("T")  # still open
            first = await acquire_instance(ConnectionConfig(c.namesrv, world=world, instance_name="one"))
            assert first.users == 1
            await first.release()

    simulate(work)


def test_clients_are_strangers_by_default(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P") as one,
            Client(c.namesrv, world=world) as other,
            other.producer("P") as two,
        ):
            await asyncio.gather(one.queues("T"), two.queues("T"))
            await world.clock.sleep(1)
            ids = {beat["clientID"] for beat in beats(c.brokers["a"])}
            assert len(ids) == 2
            assert all(known_as.startswith("127.0.0.1@1#") for known_as in ids)

    simulate(work)


def test_unit_and_address_are_part_of_the_id(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            instance = await acquire_instance(
                ConnectionConfig(c.namesrv, world=world, instance_name="i", unit_name="u", client_ip="10.1.2.3")
            )
            assert instance.client_id == "10.1.2.3@i@u"
            assert instance.ids.next().startswith("0A010203")
            await instance.release()

    simulate(work)


def test_client_starts_without_any_name_server(simulate):
    async def work(world):
        async with Client("ns:1;ns:2", world=world) as client, client.producer("P") as producer:
            assert producer.group == "P"

    simulate(work)


def test_odd_name_server_address_is_refused_at_start(simulate):
    async def work(world):
        with pytest.raises(ConfigError, match="not host:port"):
            await Client("nonsense", world=world).start()

    simulate(work)


def test_a_brokers_request_that_concerns_nobody_here_is_answered(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await world.clock.sleep(1)
            (connection,) = c.brokers["a"].connections
            answer = await connection.call(Command(RequestCode.SEND_MESSAGE), 1.0)
            assert answer.code == 3
            asked = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, ext={"consumerGroup": "G"})
            answer = await connection.call(asked, 1.0)
            assert (answer.code, answer.remark) == (1, "this client has no consumer of group G")

    simulate(work)
