"""Registration with name servers: all of them, again and again, on every change, and goodbye."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import attrs
import pytest
from broker_desk import START_MS, Desk

from gantrymq.broker import BrokerServer
from gantrymq.broker.registering.register_messages import PART_BYTES, RegisterMessages
from gantrymq.broker.registering.registration import (
    LOST_S,
    MOST_PAUSE_S,
    MOST_SINGLE,
    TOLD_S,
    WHOLE_AFTER_S,
    WHOLE_TIMES,
    order_topics,
)
from gantrymq.broker.registering.topic_routes import FRESH_S
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import FormatError
from gantrymq.interfaces import RoutedBroker, TopicRoute
from gantrymq.loose_json import dumps, loads
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.command import request
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.cluster import Watcher
from gantrymq_testing.simulated import simulate

FIRST, SECOND = "10.0.0.8", "10.0.0.9"


class Town:
    """Name servers on two hosts and one broker that knows both."""

    def __init__(self, world, plugins):
        self.world, self.plugins = world, plugins
        self.clock = world.clock
        self.servers = {}
        self.desk = None

    async def open(self, host):
        settings = Settings(name_server_settings(Path("/home") / host))
        settings.set("bindAddress", host, "the test")
        self.servers[host] = NameServer(self.world, settings)
        await self.servers[host].start()

    async def close(self, host):
        await self.servers.pop(host).stop()

    async def start_broker(self, **values):
        settings = Settings([*SCHEMA, *self.plugins.config])
        own = {
            "bindAddress": "10.0.0.1",
            "brokerName": "broker-a",
            "namesrvAddr": f"{FIRST}:9876; {SECOND}:9876",
            "storePathRootDir": "/store",
            "store": "memory",
        }
        for key, value in {**own, **values}.items():
            settings.set(key, value, "the test")
        self.desk = Desk(self.world, BrokerServer(self.world, settings, self.plugins))
        await self.desk.server.start()
        return self.desk

    def watch(self, host, whole_s=0.0):
        """Return the registrations that this name server gets from now on: ``(code, topic or None)``.

        Full ones are answered after *whole_s* seconds.
        """
        seen, service = [], self.servers[host].service
        answer = service.answer

        async def late(given):
            await self.clock.sleep(whole_s)
            return given

        def watched(asked, *more):
            if asked.code in (103, 217):
                seen.append((asked.code, asked.ext.get("topic")))
            given = answer(asked, *more)
            return late(given) if asked.code == 103 and whole_s else given

        service.answer = watched
        return seen

    def delay(self, host, seconds):
        """Delay every registration at this name server by *seconds*."""
        service = self.servers[host].service
        answer = service.answer

        async def late(asked, *more):
            await self.clock.sleep(seconds)
            return answer(asked, *more)

        service.answer = lambda asked, *more: (late if asked.code in (103, 217) else answer)(asked, *more)

    async def permissions(self, host, topic):
        """The permission bits that a route shows."""
        answer = await self.desk.client.call(f"{host}:9876", request(105, {"topic": topic}))
        return [each["perm"] for each in loads(answer.payload)["queueDatas"]]

    async def route(self, host, topic):
        """The brokers that a name server knows for a topic, None without a route."""
        answer = await self.desk.client.call(f"{host}:9876", request(105, {"topic": topic}))
        return {each["brokerName"] for each in loads(answer.payload)["brokerDatas"]} if answer.code == 0 else None


@pytest.fixture
def town(plugins):
    def run(main):
        async def in_world(world):
            town = Town(world, plugins)
            await main(town)
            if town.desk is not None:
                await town.desk.close()
            for host in list(town.servers):
                await town.close(host)

        simulate(1, in_world, start_ms=START_MS)

    return run


def test_a_started_broker_is_known_to_every_name_server(town):
    async def main(town):
        await town.open(FIRST)
        await town.open(SECOND)
        await town.start_broker()
        for host in (FIRST, SECOND):
            assert await town.route(host, "TBW102") == {"broker-a"}

    town(main)


def test_a_name_server_that_is_down_holds_up_nothing_and_is_found_when_it_comes(town, caplog):
    caplog.set_level(logging.WARNING)

    async def main(town):
        await town.open(SECOND)
        await town.start_broker()
        assert town.clock.monotonic() < 1
        assert await town.route(SECOND, "TBW102") == {"broker-a"}
        await town.clock.sleep(20)
        assert caplog.text.count(f"not registered with name server {FIRST}:9876") == 1  # once, not at every attempt
        await town.open(FIRST)
        await town.clock.sleep(30)
        assert await town.route(FIRST, "TBW102") == {"broker-a"}
        assert f"registered with name server {FIRST}:9876 again" in caplog.text

    town(main)


def test_a_broker_that_comes_first_waits_for_a_name_server(town):
    async def main(town):
        town.clock.call_later(10, lambda: opened.append(asyncio.ensure_future(town.open(FIRST))))
        await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        assert 10 < town.clock.monotonic() < 20
        assert await town.route(FIRST, "TBW102") == {"broker-a"}

    opened = []
    town(main)


def test_a_new_topic_is_known_at_once(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        assert await town.route(FIRST, "New") is None
        await desk.send("New")
        await town.clock.sleep(0.1)
        assert await town.route(FIRST, "New") == {"broker-a"}

    town(main)


def test_a_new_topic_is_told_by_itself_and_one_whole_registration_follows(town):
    async def main(town):
        await town.open(FIRST)
        seen = town.watch(FIRST, whole_s=WHOLE_AFTER_S / WHOLE_TIMES)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        seen.clear()
        for name in ("A", "B", "C"):
            await desk.send(name)
            await town.clock.sleep(1)
        assert seen == [(217, "A"), (217, "B"), (217, "C")]
        await town.clock.sleep(WHOLE_AFTER_S - 2)
        assert seen[3:] == [(103, None)]
        await town.clock.sleep(28)
        assert len(seen) == 4
        await town.clock.sleep(2)
        assert seen[4:] == [(103, None)]  # the period continues

    town(main)


def test_a_whole_registration_that_takes_no_time_follows_at_once(town):
    async def main(town):
        await town.open(FIRST)
        ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered", "value": "broker-a:4"}
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        assert (await desk.client.call(f"{FIRST}:9876", request(100, ext))).code == 0
        seen = town.watch(FIRST)
        await desk.send("Ordered")
        await town.clock.sleep(0.1)
        assert seen == [(217, "Ordered"), (103, None)] * 2  # the mark is a change as well
        assert desk.tables.topics.get("Ordered").order

    town(main)


CREATE = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
CREATE |= {"topicFilterType": "SINGLE_TAG", "order": "false"}


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
@pytest.mark.parametrize("old", [False, True])
def test_a_created_topic_is_answered_once_the_name_servers_know_it(town, delay_s, old):
    async def main(town):
        await town.open(FIRST)
        await town.open(SECOND)
        if old:
            del town.servers[FIRST].service._handlers[217]
        desk = await town.start_broker()
        for host in (FIRST, SECOND):
            town.delay(host, delay_s)
        assert (await desk.ask(17, {"topic": "One", **CREATE})).code == 0
        configs = [TopicConfig("Two", 4, 4).to_json(), TopicConfig("Three", 4, 4).to_json()]
        assert (await desk.ask(18, {}, dumps({"topicConfigList": configs}))).code == 0
        for host in (FIRST, SECOND):
            for topic in ("One", "Two", "Three"):
                assert topic in town.servers[host].service.tables.queues

    town(main)


def test_write_permission_that_was_taken_stays_taken_whatever_topics_come_and_go(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        assert (await desk.ask(17, {"topic": "Wiped", **CREATE})).code == 0
        assert (await desk.client.call(f"{FIRST}:9876", request(205, {"brokerName": "broker-a"}))).code == 0
        assert await town.permissions(FIRST, "Wiped") == [4]
        await town.clock.sleep(100)
        await desk.send("ByItself")
        await asyncio.gather(*(desk.ask(17, {"topic": f"T{n}", **CREATE}) for n in range(20)))
        assert (await desk.ask(215, {"topic": "T1"})).code == 0
        await town.clock.sleep(100)
        assert await town.permissions(FIRST, "Wiped") == [4]
        assert await town.permissions(FIRST, "ByItself") == await town.permissions(FIRST, "T2") == [6]
        assert (await desk.ask(17, {"topic": "Wiped", **CREATE, "perm": "2"})).code == 0
        assert await town.permissions(FIRST, "Wiped") == [2]  # a change of the topic itself is registered
        assert await town.permissions(FIRST, "TBW102") == [5]
        assert (await desk.ask(25, None, b"brokerPermission=4\n")).code == 0
        await town.clock.sleep(1)
        assert await town.permissions(FIRST, "TBW102") == [4]  # and a change of all topics registers all of them

    town(main)


def test_a_name_server_that_does_not_answer_holds_up_a_creation_for_three_seconds(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876; {SECOND}:9876")  # the second is down
        began = town.clock.monotonic()
        assert (await desk.ask(17, {"topic": "One", **CREATE})).code == 0
        assert town.clock.monotonic() - began < 0.1
        town.delay(FIRST, 60)
        assert (await desk.ask(17, {"topic": "Two", **CREATE})).code == 0
        assert TOLD_S <= town.clock.monotonic() - began < TOLD_S + 0.1
        assert (await desk.ask(17, {"topic": "Two", **CREATE})).code == 0
        assert town.clock.monotonic() - began < 2 * TOLD_S + 0.2

    town(main)


def test_topics_that_come_together_are_told_together(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        seen = town.watch(FIRST)
        for number in range(MOST_SINGLE):
            desk.tables.topics.put(TopicConfig(f"T{number}"))
        await town.clock.sleep(0.1)
        assert [code for code, _ in seen] == [217] * MOST_SINGLE + [103]
        seen.clear()
        for number in range(MOST_SINGLE + 1):
            desk.tables.topics.put(TopicConfig(f"U{number}"))
        await town.clock.sleep(0.1)
        assert seen == [(103, None)]
        for name in ("T0", f"T{MOST_SINGLE - 1}", "U0", f"U{MOST_SINGLE}"):
            assert await town.route(FIRST, name) == {"broker-a"}

    town(main)


def test_a_name_server_that_takes_no_single_topics_gets_whole_registrations(town):
    async def main(town):
        await town.open(FIRST)
        del town.servers[FIRST].service._handlers[217]  # as RocketMQ 4.9 answers
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        seen = town.watch(FIRST)
        for name in ("A", "B"):
            await desk.send(name)
            await town.clock.sleep(0.1)
            assert await town.route(FIRST, name) == {"broker-a"}
        assert seen == [(217, "A"), (103, None), (103, None)]

    town(main)


def test_a_name_server_that_was_restarted_soon_knows_more_than_the_topic_it_was_told(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await town.close(FIRST)
        await town.open(FIRST)
        await desk.send("New")
        await town.clock.sleep(WHOLE_AFTER_S + 1)
        for topic in ("New", "TBW102"):
            assert await town.route(FIRST, topic) == {"broker-a"}

    town(main)


def test_a_deleted_topic_is_told_by_a_whole_registration(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await desk.send("T")
        await town.clock.sleep(0.1)
        seen = town.watch(FIRST)
        assert (await desk.ask(215, {"topic": "T"})).code == 0
        await town.clock.sleep(0.1)
        assert seen == [(103, None)]

    town(main)


def test_topics_that_are_deleted_together_share_one_registration(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        for number in range(20):
            await desk.send(f"T{number}")
        await town.clock.sleep(WHOLE_AFTER_S + 1)
        seen = town.watch(FIRST, whole_s=0.1)
        assert (await desk.ask(215, {"topic": "T0"})).code == 0
        await town.clock.sleep(1)
        assert seen == [(103, None)]
        for number in range(1, 20):
            assert (await desk.ask(215, {"topic": f"T{number}"})).code == 0
            await town.clock.sleep(0.05)
        assert seen == [(103, None)]  # the previous one took 0.1 s, so the next one waits WHOLE_TIMES as long
        await town.clock.sleep(WHOLE_TIMES * 0.1)
        assert seen == [(103, None)] * 2
        await town.clock.sleep(WHOLE_TIMES * 0.1)
        assert seen == [(103, None)] * 2

    town(main)


def test_a_topic_that_goes_before_it_was_told_is_passed_over(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        seen = town.watch(FIRST)
        desk.tables.topics.put(TopicConfig("Gone"))
        desk.tables.topics.put(TopicConfig("Stays"))
        desk.tables.topics.delete("Gone")
        await town.clock.sleep(0.1)
        assert seen == [(217, "Stays"), (103, None)]

    town(main)


@pytest.mark.parametrize("away_s", [0, 1, 20, 200])
def test_a_restarted_name_server_learns_of_the_broker_as_soon_as_it_is_back(town, away_s):
    async def main(town):
        await town.open(FIRST)
        await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await town.clock.sleep(5)  # the next period is 25 s away
        await town.close(FIRST)
        await town.clock.sleep(away_s)
        await town.open(FIRST)
        await town.clock.sleep(max(LOST_S, MOST_PAUSE_S) + 0.1)
        assert await town.route(FIRST, "TBW102") == {"broker-a"}

    town(main)


def test_a_name_server_that_closes_every_connection_is_not_told_without_a_pause(town):
    async def main(town):
        await town.open(FIRST)
        service, seen = town.servers[FIRST].service, []
        answer = service.answer

        def closing(asked, connection, *more):
            given = answer(asked, connection, *more)
            if asked.code == 103:
                seen.append(town.clock.monotonic())
                town.clock.call_later(0.01, connection.close)
            return given

        service.answer = closing
        await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await town.clock.sleep(10)
        assert 5 <= len(seen) <= 12

    town(main)


@pytest.mark.slow
def test_topics_that_fill_more_than_a_frame_are_told_in_parts(town):
    names = [f"T{number:05d}{'x' * 90}" for number in range(60_000)]

    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        seen = town.watch(FIRST)
        table = desk.tables.topics
        table.load({name: TopicConfig(name) for name in names}, table.version)
        table.put(TopicConfig("Last"))
        await town.clock.sleep(31)
        assert len(seen) >= 3  # of 19 MiB
        known = town.servers[FIRST].service.tables.queues
        assert set(names) <= known.keys()
        table.put(attrs.evolve(table.get(names[0]), perm=4))
        table.permission_changed()
        await town.clock.sleep(31)
        assert await town.permissions(FIRST, names[0]) == [4]

    assert len(names) * (2 * len(names[0]) + 150) > 2 * PART_BYTES
    town(main)


def test_a_slave_hears_of_its_master(town):
    async def main(town):
        watcher, told = Watcher(), []
        town.plugins = attrs.evolve(town.plugins, services=(*town.plugins.services, watcher))
        await town.open(FIRST)
        desk = await town.start_broker()
        registration = watcher.broker.registration
        remove = registration.on_master_told(lambda *addresses: told.append(addresses))
        registration.changed()
        await town.clock.sleep(5)
        assert told == []  # it is a master
        registration.change(broker_id=1)
        await town.clock.sleep(5)
        assert told == []  # without a master
        master = {"clusterName": "DefaultCluster", "brokerName": "broker-a", "brokerAddr": "10.0.0.7:10911"}
        body = dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {}}})
        fields = {**master, "brokerId": "0", "haServerAddr": "10.0.0.7:10912"}
        assert (await desk.client.call(f"{FIRST}:9876", request(103, fields, body))).code == 0
        registration.changed()
        await town.clock.sleep(5)
        assert told == [("10.0.0.7:10911", "10.0.0.7:10912")]
        late = []
        registration.on_master_told(lambda *addresses: late.append(addresses))
        await town.clock.sleep(0)
        assert late == told[:1]  # it was known already
        told[:] = told[:1]
        remove()
        registration.changed()
        await town.clock.sleep(5)
        assert len(told) == 1

    town(main)


def test_a_slave_of_name_servers_that_disagree_stays_with_its_master(town):
    async def main(town):
        watcher, told = Watcher(), []
        town.plugins = attrs.evolve(town.plugins, services=(*town.plugins.services, watcher))
        await town.open(FIRST)
        await town.open(SECOND)
        desk = await town.start_broker()
        registration = watcher.broker.registration
        registration.on_master_told(lambda *addresses: told.append(addresses[0]))
        registration.change(broker_id=1)
        await town.clock.sleep(5)
        body = dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {}}})
        for host, master in ((FIRST, "10.0.0.6:1"), (SECOND, "10.0.0.7:1")):
            fields = {"clusterName": "DefaultCluster", "brokerName": "broker-a", "brokerAddr": master}
            fields |= {"brokerId": "0", "haServerAddr": f"{master}2"}
            assert (await desk.client.call(f"{host}:9876", request(103, fields, body))).code == 0
        for _ in range(3):
            registration.changed()
            await town.clock.sleep(5)
        (first,) = told
        await town.close(FIRST if first == "10.0.0.6:1" else SECOND)
        await town.clock.sleep(5)
        assert told == [first, *({"10.0.0.6:1", "10.0.0.7:1"} - {first})]

    town(main)


def test_a_stopped_broker_is_taken_out_at_once(town):
    async def main(town):
        await town.open(FIRST)
        await town.open(SECOND)
        desk = await town.start_broker()
        await town.clock.sleep(1)
        await town.close(SECOND)  # must not hold up the stop for long
        before = town.clock.monotonic()
        await desk.server.stop()
        assert town.clock.monotonic() - before < 10
        assert await town.route(FIRST, "TBW102") is None

    town(main)


@pytest.mark.parametrize(
    ("body", "topics"),
    [
        (b"", set()),
        (b"no json", set()),
        (dumps({"table": {}}), set()),
        (dumps({"table": {"T": "broker-a:4"}}), {"T"}),
        (b"[1]", set()),
    ],
)
def test_ordered_topics_are_read_from_the_answer(body, topics):
    assert order_topics(body) == topics


def test_a_broker_without_write_permission_refuses_ordered_topics(town):
    async def main(town):
        await town.open(FIRST)
        ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered", "value": "broker-a:4"}
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876", brokerPermission=4)
        assert (await desk.client.call(f"{FIRST}:9876", request(100, ext))).code == 0
        assert (await desk.send("Ordered")).code == 0
        await town.clock.sleep(31)  # the next registration brings it
        assert (await desk.send("Ordered")).code == 16
        assert (await desk.send("Other")).code == 0

    town(main)


def test_an_ordered_topic_stays_one_when_another_name_server_knows_nothing_of_it(town):
    async def main(town):
        await town.open(FIRST)
        await town.open(SECOND)
        ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered", "value": "broker-a:4"}
        desk = await town.start_broker(brokerPermission=4)
        assert (await desk.client.call(f"{FIRST}:9876", request(100, ext))).code == 0
        assert (await desk.send("Ordered")).code == 0
        for _ in range(3):
            await town.clock.sleep(31)
            assert (await desk.send("Ordered")).code == 16
        assert desk.tables.topics.get("Ordered").order

    town(main)


def test_routes_show_what_the_brokers_permission_leaves_of_a_topic(town):
    async def main(town):
        await town.open(FIRST)
        desk = await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        assert (await desk.send("T")).code == 0
        await town.clock.sleep(0.1)
        assert await town.permissions(FIRST, "T") == [6]
        for setting, shown in ((4, 4), (6, 6), (2, 2)):
            assert (await desk.ask(25, None, f"brokerPermission={setting}\n".encode())).code == 0
            await town.clock.sleep(0.1)
            assert await town.permissions(FIRST, "T") == [shown]
            assert desk.tables.topics.get("T").perm == 6
            desk.tables.topics.put(TopicConfig(f"New{setting}"))
            await town.clock.sleep(0.1)
            assert await town.permissions(FIRST, f"New{setting}") == [shown]

    town(main)


@pytest.mark.parametrize("error", [FormatError("too large"), ValueError("a bug")])
def test_whatever_goes_wrong_is_said_and_tried_again(town, monkeypatch, caplog, error):
    async def main(town):
        await town.open(FIRST)
        await town.open(SECOND)
        fails, made = [5], RegisterMessages.whole

        async def whole(self, known):
            if fails[0]:
                fails[0] -= 1
                raise error
            async for message in made(self, known):
                yield message

        monkeypatch.setattr(RegisterMessages, "whole", whole)
        desk = await town.start_broker()
        assert (await desk.send("T")).code == 0
        await town.clock.sleep(70)
        assert fails == [0]
        assert await town.route(FIRST, "T") == await town.route(SECOND, "T") == {"broker-a"}
        said = [record for record in caplog.records if "trying on" in record.message]
        assert len(said) == 2
        assert str(error) in said[0].message
        assert (said[0].exc_info is not None) is isinstance(error, ValueError)

    town(main)


class Holder:
    """A service that lets the broker register later."""

    name = "holder"

    async def start(self, broker):
        self.registration = broker.registration
        self.registration.change(held="it has no id")

    async def stop(self):
        pass


def test_a_held_broker_is_not_registered_and_says_why(town):
    async def main(town):
        holder = Holder()
        town.plugins = attrs.evolve(town.plugins, services=(*town.plugins.services, holder))
        await town.open(FIRST)
        await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await town.clock.sleep(60)
        assert holder.registration.states() == {f"{FIRST}:9876": "it has no id"}
        assert await town.route(FIRST, "TBW102") is None
        holder.registration.change(held="")
        await town.clock.sleep(0.1)
        assert await town.route(FIRST, "TBW102") == {"broker-a"}
        assert holder.registration.states() == {f"{FIRST}:9876": None}

    town(main)


# --- routes for clients of plugins -----------------------------------------------------------------------------------


class Kept:
    """A service that keeps the brokers it was started in, by name."""

    name = "kept"

    def __init__(self):
        self.brokers = {}

    async def start(self, broker):
        self.brokers[broker.registration.broker_name] = broker

    async def stop(self):
        """End nothing: there is no continuing work."""


def test_a_broker_routes_its_clients_to_the_listeners_of_every_broker(town):
    kept = Kept()

    async def main(town):
        town.plugins = attrs.evolve(town.plugins, services=(kept,))
        await town.open(FIRST)
        only = {"namesrvAddr": f"{FIRST}:9876"}
        others = {"bindAddress": "10.0.0.2", "brokerName": "broker-b", "storePathRootDir": "/b"}
        second = await town.start_broker(listeners="sdk=remoting://10.0.0.2:8081", **others, **only)
        await town.start_broker(listeners="sdk=remoting://10.0.0.1:8081", **only)
        topic = TopicConfig("T", 2, 3, attributes={"message.type": "FIFO"})
        route = kept.brokers["broker-a"].registration.route
        assert await route("T", "sdk") is None
        kept.brokers["broker-b"].topics.put(topic)
        await town.clock.sleep(0.1)
        b = RoutedBroker("broker-b", 0, "10.0.0.2:10911", "10.0.0.2:8081", 2, 3, 6)
        assert await route("T", "sdk") == TopicRoute("T", [b], {"message.type": "FIFO"})
        kept.brokers["broker-a"].topics.put(attrs.evolve(topic, attributes={}))
        await town.clock.sleep(FRESH_S + 0.1)
        a = RoutedBroker("broker-a", 0, "10.0.0.1:10911", "10.0.0.1:8081", 2, 3, 6)
        assert await route("T", "sdk") == TopicRoute("T", [a, b], {})
        assert [each.listener_address for each in (await route("T", "none")).brokers] == ["", ""]
        await second.server.stop()
        await second.client.close()
        await town.clock.sleep(FRESH_S + 0.1)
        assert (await route("T", "sdk")).brokers == [a]

    town(main)
