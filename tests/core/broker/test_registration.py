"""Registration with name servers: all of them, again and again, on every change, and goodbye."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from broker_desk import START_MS, Desk

from gantrymq.broker import BrokerServer
from gantrymq.broker.registration import order_topics
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.loose_json import dumps, loads
from gantrymq.nameserver.server import NameServer
from gantrymq.nameserver.settings import name_server_settings
from gantrymq.remoting.command import request
from gantrymq.world.simulated import simulate

FIRST, SECOND = "10.0.0.8", "10.0.0.9"


class Town:
    """Name servers on two hosts and one broker that knows both."""

    def __init__(self, world, plugins):
        self.world, self._plugins = world, plugins
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
        settings = Settings([*SCHEMA, *self._plugins.schema])
        own = {
            "bindAddress": "10.0.0.1",
            "brokerName": "broker-a",
            "namesrvAddr": f"{FIRST}:9876; {SECOND}:9876",
            "storePathRootDir": "/store",
            "store": "memory",
        }
        for key, value in {**own, **values}.items():
            settings.set(key, value, "the test")
        self.desk = Desk(self.world, BrokerServer(self.world, settings, self._plugins))
        await self.desk.server.start()
        return self.desk

    async def permissions(self, host, topic):
        """The permission bits that a route shows."""
        answer = await self.desk.client.call(f"{host}:9876", request(105, {"topic": topic}))
        return [each["perm"] for each in loads(answer.payload)["queueDatas"]]

    async def route(self, host, topic):
        """The brokers that a name server knows for a topic, None where it knows no route."""
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


def test_a_registration_is_repeated_so_that_a_restarted_name_server_learns(town):
    async def main(town):
        await town.open(FIRST)
        await town.start_broker(namesrvAddr=f"{FIRST}:9876")
        await town.close(FIRST)
        await town.open(FIRST)
        await town.clock.sleep(31)
        assert await town.route(FIRST, "TBW102") == {"broker-a"}

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

    town(main)
