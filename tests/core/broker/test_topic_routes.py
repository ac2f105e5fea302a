"""The route of a topic: its queues on all brokers, asked seldom, renewed in the background, never waited for long."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.registering.silent_brokers import WATCHED_S
from gantrymq.broker.registering.topic_routes import FRESH_S, KEPT_S, MOST_WAIT_S, WAIT_S, TopicRoutes
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import BrokerRefused, ClientError, ServiceNotAvailable
from gantrymq.interfaces import RoutedBroker, TopicRoute
from gantrymq.loose_json import dumps_standard
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import simulate

IDENTITY = BrokerIdentity("C", "a", 0, "10.0.0.1", 10911, listeners={"sdk": "10.0.0.1:8081"})
ROUTE = b"""{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":9},
{"brokerName":"b","perm":4,"readQueueNums":2,"writeQueueNums":9},
{"brokerName":"c","perm":2,"readQueueNums":3,"writeQueueNums":9}],"brokerDatas":[]}"""


class NameServer:
    """Answers every request alike."""

    def __init__(self, answer):
        self.answer = answer

    def requests(self, connection, commands):
        for command in commands:
            connection.reply(command, Command(self.answer.code, remark=self.answer.remark, body=self.answer.body))


def asked(settings, answers, *, addresses=("10.0.0.9:9876",)):
    """Return the queues of topic T with name servers that give *answers*, or without name servers."""

    async def run(world):
        topics = TopicTable(settings, world.clock.now_ms)
        topics.put(TopicConfig("T", 2, 2))
        topics.put(TopicConfig("Closed", 2, 2, 2))
        client = RemotingClient(world)
        queues = TopicRoutes(lambda: IDENTITY, topics, client, addresses if answers is not None else (), world.clock)
        if answers is None:
            return await queues.readable("T"), await queues.readable("Closed"), await queues.readable("Nowhere")
        servers = []
        for address, answer in answers.items():
            servers.append(RemotingServer(world, NameServer(answer)))
            await servers[-1].start(*address)
        try:
            return await queues.readable("T")
        finally:
            await client.close()
            for server in servers:
                await server.stop()
            await world.workers.close()

    return simulate(1, run)


def test_without_name_servers_the_cluster_is_this_broker(settings):
    own, closed, unknown = asked(settings, None)
    assert own == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)]
    assert closed == unknown == []


def test_the_route_gives_the_readable_queues_of_every_broker(settings):
    found = asked(settings, {("10.0.0.9", 9876): Command(0, body=ROUTE)})
    assert found == [MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


def test_a_topic_without_route_has_no_queues(settings):
    assert asked(settings, {("10.0.0.9", 9876): Command(17, remark="No topic route info")}) == []


def test_the_next_name_server_is_asked_when_one_is_gone(settings):
    answers = {("10.0.0.9", 9876): Command(0, body=ROUTE)}
    found = asked(settings, answers, addresses=("10.0.0.8:9876", "10.0.0.9:9876"))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Command(1, remark="no"), BrokerRefused),
        (Command(0, body=b"[]"), BrokerRefused),
        (Command(0, body=b'{"queueDatas":[{"brokerName":"a"}]}'), BrokerRefused),
        (Command(0, body=b"{"), BrokerRefused),
        (None, ClientError),
    ],
)
def test_what_cannot_be_used_is_an_error(settings, answer, error):
    answers = {} if answer is None else {("10.0.0.9", 9876): answer}
    with pytest.raises(error):
        asked(settings, answers)


# --- route ------------------------------------------------------------------------------------------------------------

NAME_SERVER = ("10.0.0.9", 9876)
OWN = RoutedBroker("a", 0, "10.0.0.1:10911", "10.0.0.1:8081", 2, 3, 6)


def answer(*names, attributes=None, **listeners):
    """Return a route over masters with *names*, each at the same port of a host of its own."""
    hosts = {name: f"10.0.0.{number}:10911" for number, name in enumerate(names, 1)}
    queues = {"perm": 6, "readQueueNums": 2, "writeQueueNums": 3}
    details = {"attributes": attributes} if attributes is not None else {}
    return {
        "brokerDatas": [
            {
                "brokerName": name,
                "brokerAddrs": {0: at},
                **({"listenerAddrs": {0: {"sdk": listeners[name]}}} if name in listeners else {}),
            }
            for name, at in hosts.items()
        ],
        "queueDatas": [{"brokerName": name, **queues, **details} for name in names],
    }


class Asked(NameServer):
    """Answers with a route that tests change, after *delay_s*; counts the questions."""

    def __init__(self, world, route=None):
        self.world, self.route, self.delay_s, self.questions = world, route, 0.0, []

    def requests(self, connection, commands):
        for command in commands:
            self.questions.append(command.ext)
            given = Command(17) if self.route is None else Command(0, body=dumps_standard(self.route))
            self.world.clock.call_later(self.delay_s, connection.reply, command, given)


class Town:
    """A broker that has topic T, and a name server."""

    def __init__(self, world, settings, route):
        self.world, self.name_server = world, Asked(world, route)
        self.topics = TopicTable(settings, world.clock.now_ms)
        self.topics.put(TopicConfig("T", 2, 3, attributes={"message.type": "FIFO"}))
        self.client = RemotingClient(world)
        self.routes = TopicRoutes(lambda: IDENTITY, self.topics, self.client, ["10.0.0.9:9876"], world.clock)
        self.server = None

    async def up(self):
        self.server = RemotingServer(self.world, self.name_server)
        await self.server.start(*NAME_SERVER)

    async def down(self):
        server, self.server = self.server, None
        if server is not None:
            await server.stop()

    async def names(self, topic="T"):
        found = await self.routes.route(topic, "sdk")
        return None if found is None else [each.name for each in found.brokers]

    async def seconds(self, asking):
        began = self.world.clock.monotonic()
        return await asking, self.world.clock.monotonic() - began


def in_town(settings, work, route=None):
    async def run(world):
        town = Town(world, settings, route)
        await town.up()
        try:
            return await work(town)
        finally:
            await town.routes.stop()
            await town.client.close()
            await town.down()
            await world.workers.close()

    return simulate(1, run)


def test_a_route_has_every_broker_with_the_address_of_the_listener(settings):
    async def work(town):
        found = await town.routes.route("U", "sdk")
        other = await town.routes.route("U", "nobody")
        assert [each.listener_address for each in other.brokers] == ["", "", ""]
        assert town.name_server.questions[0]["withDetails"] == "true"
        return found

    route = answer("a", "b", "c", attributes={"message.type": "DELAY"}, b="10.0.0.2:9000")
    assert in_town(settings, work, route) == TopicRoute(
        "U",
        [
            RoutedBroker("a", 0, "10.0.0.1:10911", "10.0.0.1:8081", 2, 3, 6),  # its own, whoever answers
            RoutedBroker("b", 0, "10.0.0.2:10911", "10.0.0.2:9000", 2, 3, 6),
            RoutedBroker("c", 0, "10.0.0.3:10911", "", 2, 3, 6),
        ],
        {"message.type": "DELAY"},
    )


def test_slaves_are_in_a_route_and_queues_without_an_address_are_not(settings):
    route = answer("a", "b")
    route["brokerDatas"] = [{"brokerName": "b", "brokerAddrs": {"10": "h:3", "0": "h:1", "2": "h:2"}}]

    async def work(town):
        return [(each.name, each.broker_id, each.address) for each in (await town.routes.route("U", "")).brokers]

    assert in_town(settings, work, route) == [("b", 0, "h:1"), ("b", 2, "h:2"), ("b", 10, "h:3")]


def test_one_question_serves_all_who_ask_and_is_kept(settings):
    async def work(town):
        town.name_server.delay_s = 0.1
        await asyncio.gather(*(town.names("U") for _ in range(50)))
        await town.world.clock.sleep(FRESH_S - 0.2)
        await town.names("U")
        assert len(town.name_server.questions) == 1

    in_town(settings, work, answer("a"))


def test_a_broker_that_is_gone_is_left_out_by_the_next_question_after_a_few_seconds(settings):
    async def work(town):
        assert await town.names("U") == ["a", "b"]
        town.name_server.route = answer("a")
        await town.world.clock.sleep(FRESH_S + 0.1)
        assert await town.names("U") == ["a"]
        town.name_server.route = None
        await town.world.clock.sleep(FRESH_S + 0.1)
        assert await town.names("U") is None

    in_town(settings, work, answer("a", "b"))


def test_a_slow_name_server_delays_a_client_only_for_a_moment(settings):
    async def work(town):
        await town.names("U")
        town.name_server.route, town.name_server.delay_s = answer("a", "b"), 2.0
        await town.world.clock.sleep(FRESH_S + 0.1)
        assert await town.seconds(town.names("U")) == (["a"], pytest.approx(WAIT_S))
        assert await town.seconds(town.names("U")) == (["a"], pytest.approx(WAIT_S))
        await town.world.clock.sleep(2)  # answered in the background
        assert await town.names("U") == ["a", "b"]
        await town.world.clock.sleep(KEPT_S + 0.1)
        assert await town.seconds(town.names("U")) == (["a", "b"], pytest.approx(MOST_WAIT_S))
        assert len(town.name_server.questions) == 3

    in_town(settings, work, answer("a"))


def test_without_a_name_server_that_responds_the_last_answer_is_used(settings):
    async def work(town):
        assert await town.names("U") == ["a", "b"]
        await town.down()
        await town.world.clock.sleep(10 * KEPT_S)
        assert await town.names("U") == ["a", "b"]
        with pytest.raises(ClientError):
            await town.names("unknown")
        await town.up()
        town.name_server.route = answer("b")
        assert await town.names("U") == ["b"]

    in_town(settings, work, answer("a", "b"))


@pytest.mark.parametrize("is_up", [True, False], ids=["not registered yet", "no name server responds"])
def test_a_topic_of_this_broker_is_routed_to_it_until_a_name_server_says_more(settings, is_up):
    async def work(town):
        if not is_up:
            await town.down()
        return await town.routes.route("T", "sdk")

    assert in_town(settings, work) == TopicRoute("T", (OWN,), {"message.type": "FIFO"})


def test_the_attributes_of_a_topic_here_are_this_brokers(settings):
    async def work(town):
        return (await town.routes.route("T", "sdk")).attributes

    assert in_town(settings, work, answer("a", "b", attributes={"message.type": "NORMAL"})) == {"message.type": "FIFO"}


def test_a_route_that_cannot_be_read_is_an_error_and_the_last_one_stays(settings):
    async def work(town):
        good, town.name_server.route = town.name_server.route, {"queueDatas": [{}], "brokerDatas": []}
        with pytest.raises(BrokerRefused, match="cannot be read"):
            await town.names("U")
        town.name_server.route = good
        assert await town.names("U") == ["a"]
        town.name_server.route = {"queueDatas": 1}
        await town.world.clock.sleep(FRESH_S + 0.1)
        assert await town.names("U") == ["a"]

    in_town(settings, work, answer("a"))


class Other:
    """A broker at 10.0.0.2 that answers while it is not frozen."""

    def __init__(self, world):
        self.server, self.frozen, self.questions = RemotingServer(world, self), False, 0

    def requests(self, connection, commands):
        for command in commands:
            self.questions += 1
            if not self.frozen:
                connection.reply(command, Command(16, remark="no permission is an answer, too"))

    async def up(self):
        await self.server.start("10.0.0.2", 10911)
        return self


def test_a_frozen_broker_is_left_out_after_10_seconds_and_comes_back(settings, caplog):
    caplog.set_level(logging.WARNING)

    async def work(town):
        other = await Other(town.world).up()
        assert await town.names() == ["a", "b"]
        await town.world.clock.sleep(4)
        other.frozen = True
        await town.world.clock.sleep(6)
        assert await town.names() == ["a", "b"]
        await town.world.clock.sleep(8)
        assert await town.names() == ["a"]
        await town.world.clock.sleep(60)
        assert ["10.0.0.2:10911 has not answered for 10 s" in text for text in caplog.messages] == [True]
        other.frozen = False
        await town.world.clock.sleep(4)
        assert await town.names() == ["a", "b"]
        assert ["10.0.0.2:10911 answers again" in text for text in caplog.messages] == [False, True]
        await other.server.stop()

    in_town(settings, work, answer("a", "b"))


def test_brokers_that_never_answered_this_one_and_the_only_ones_are_not_left_out(settings):
    async def work(town):
        assert await town.names() == ["a", "b"]  # nobody listens at b
        await town.world.clock.sleep(60)
        assert await town.names() == ["a", "b"]
        other = await Other(town.world).up()
        await town.world.clock.sleep(4)
        await other.server.stop()
        await town.world.clock.sleep(20)
        assert await town.names() == ["a"]
        route = answer("a", "b")
        route["queueDatas"] = route["queueDatas"][1:]
        town.name_server.route = route
        assert await town.names("only b") == ["b"]

    in_town(settings, work, answer("a", "b"))


def asks_others():
    """Whether a task of `SilentBrokers` runs."""
    return any("SilentBrokers" in repr(task) for task in asyncio.all_tasks())


def test_brokers_are_not_asked_for_long_if_no_client_asks_for_routes(settings):
    async def work(town):
        other = await Other(town.world).up()
        await town.routes.readable("T")  # what a broker asks for itself
        assert not asks_others()
        await town.names()
        assert asks_others()
        await town.world.clock.sleep(WATCHED_S + 10)
        assert not asks_others()
        asked = other.questions
        await town.world.clock.sleep(60)
        assert other.questions == asked
        await town.names()
        await town.world.clock.sleep(10)
        assert other.questions > asked
        await other.server.stop()

    in_town(settings, work, answer("a", "b"))


def test_a_client_that_gives_up_does_not_end_the_question_of_others(settings):
    async def work(town):
        town.name_server.delay_s = 1.0
        first, second = (asyncio.ensure_future(town.names("U")) for _ in range(2))
        await town.world.clock.sleep(0.1)
        first.cancel()
        assert await second == ["a"]
        assert len(town.name_server.questions) == 1

    in_town(settings, work, answer("a"))


def test_a_stop_ends_the_questions(settings):
    async def work(town):
        town.name_server.delay_s = 1.0
        waiting = asyncio.ensure_future(town.names("U"))
        await town.world.clock.sleep(0.1)
        await town.routes.stop()
        with pytest.raises(ServiceNotAvailable, match="stopping"):
            await waiting

    in_town(settings, work, answer("a"))


def test_without_name_servers_the_route_is_this_broker(settings):
    async def run(world):
        topics = TopicTable(settings, world.clock.now_ms)
        topics.put(TopicConfig("T", 2, 3))
        routes = TopicRoutes(lambda: IDENTITY, topics, RemotingClient(world), (), world.clock)
        return await routes.route("T", "sdk"), await routes.route("U", "sdk")

    assert simulate(1, run) == (TopicRoute("T", (OWN,), {}), None)
