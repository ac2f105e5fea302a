"""Startup and shutdown of a broker: the order of opening and closing, and failing starts."""

from __future__ import annotations

import errno
from pathlib import Path

import attrs
import pytest
from broker_desk import START_MS, Desk, run_broker, settings_for

from gantrymq.broker import BrokerServer
from gantrymq.broker.server import limits_of
from gantrymq.broker.settings import SCHEMA
from gantrymq.broker.tables.disk_reserve import ENOUGH_BYTES
from gantrymq.config import Settings
from gantrymq.errors import ConfigError, PluginError, StoreError
from gantrymq.formats.config import save
from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import Plugins
from gantrymq_testing.simulated import simulate


class Watching:
    """Records calls in order."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    async def start(self, broker):
        self.broker = broker
        self.calls.append(f"{self.name} starts")

    async def stop(self):
        self.calls.append(f"{self.name} stops")


def watched_store(store, calls):
    class WatchedStore(store):
        async def start(self):
            calls.append("store starts")
            return await super().start()

        async def stop(self):
            calls.append("store stops")
            await super().stop()

    return WatchedStore


def test_services_live_inside_the_store_s_life_and_stop_last_first(plugins):
    calls = []
    stores = {"memory": watched_store(plugins.stores["memory"], calls)}
    services = (Watching(calls, "one"), Watching(calls, "two"))

    async def main(desk):
        assert calls == ["store starts", "one starts", "two starts"]
        await desk.send("T")

    run_broker(Plugins(stores=stores, services=services), main)
    assert calls[3:] == ["two stops", "one stops", "store stops"]


def test_a_service_that_fails_to_start_ends_the_start_and_closes_what_was_opened(plugins):
    calls = []
    stores = {"memory": watched_store(plugins.stores["memory"], calls)}
    bad = Watching(calls, "bad")

    async def fail(broker):
        raise StoreError("no such thing")

    bad.start = fail
    with pytest.raises(StoreError, match="no such thing"):
        run_broker(Plugins(stores=stores, services=(Watching(calls, "good"), bad)), None)
    assert calls == ["store starts", "good starts", "good stops", "store stops"]


def test_a_step_of_stopping_that_fails_leaves_the_others_alone(plugins, caplog):
    calls = []
    stores = {"memory": watched_store(plugins.stores["memory"], calls)}
    bad = Watching(calls, "bad")

    async def fail():
        raise ZeroDivisionError("a bug")

    bad.stop = fail

    async def main(desk):
        pass

    run_broker(Plugins(stores=stores, services=(Watching(calls, "good"), bad)), main)
    assert calls[-2:] == ["good stops", "store stops"]
    assert "a step of stopping the broker failed" in caplog.text


def test_a_taken_port_is_told_with_the_way_out(plugins):
    async def main(world):
        first = BrokerServer(world, settings_for(plugins, storePathRootDir="/one"), plugins)
        await first.start()
        second = BrokerServer(world, settings_for(plugins, storePathRootDir="/two"), plugins)
        with pytest.raises(ConfigError, match=r"port 10911 on 10\.0\.0\.1 is taken .* --set listenPort=PORT"):
            await second.start()
        await first.stop()
        await second.start()
        await second.stop()
        await world.workers.close()

    simulate(1, main, start_ms=START_MS)


def test_port_0_takes_a_free_one_and_advertises_it(broker):
    async def main(desk):
        host, port = desk.server.address
        assert (host, port > 0) == ("10.0.0.1", True)

    broker(main, listenPort=0)


@pytest.mark.parametrize("host", ["300.1.1.1", "10.0.0", "my host", "-host", "host:1", "http://host"])
def test_an_advertised_address_that_nobody_can_reach_is_refused(plugins, host):
    with pytest.raises(ConfigError, match=f"brokerIP1={host} is neither an IP address nor a host name"):
        run_broker(plugins, None, brokerIP1=host)


@pytest.mark.parametrize("key", ["store", "transaction"])
def test_a_part_that_no_plugin_offers_is_named_before_anything_opens(plugins, key):
    with pytest.raises(PluginError, match=f"{key}=nowhere"):
        run_broker(plugins, None, **{key: "nowhere"})


# --- the broker as seen by a plugin ---------------------------------------------------------------------------------


def with_service(plugins, main, **more):
    service = Watching([], "plugin")

    async def run(desk: Desk):
        await main(desk, service.broker)

    run_broker(Plugins(stores=plugins.stores, services=(service,), **more), run)


def test_a_plugin_stores_and_reads_through_the_broker(plugins):
    async def main(desk, facade):
        facade.topics.put(TopicConfig("T", 2, 2))
        heard = []
        facade.messages.on_arrival(lambda queue, offset: heard.append((queue, offset)))
        result = await facade.messages.put(StoreMessage("T", 1, b"body", b"TAGS\x01a\x02"))
        queue = Queue("T", 1)
        assert heard == [(queue, 1)]
        assert facade.store.bounds(queue) == (0, 1)
        assert bytes(facade.messages.read(result.log_offset).body) == b"body"
        assert (await facade.messages.get(queue, 0, GetLimit())).count == 1
        assert facade.topics.get("T").write_queues == 2
        assert "T" in facade.topics.view
        facade.offsets.commit("CG", queue, 1)
        assert facade.offsets.committed("CG", queue) == 1
        assert facade.groups.get("CG") is None
        folder = facade.state_folder("plugin")
        assert folder == facade.root / "plugins" / "plugin"
        assert facade.root == desk.server.root

    with_service(plugins, main)


def test_a_plugin_reaches_the_clients_of_a_group(plugins):
    async def main(desk, facade):
        await desk.heartbeat("CG")
        (consumer,) = facade.clients.consumers("CG")
        assert (consumer.client_id, consumer.connection.closed) == ("c1", False)
        assert list(facade.clients.consumers("Unknown")) == list(facade.clients.producers("CG")) == []

    with_service(plugins, main)


def test_interceptors_change_what_is_stored(plugins):
    class Moves:
        order = 1

        def __call__(self, message):
            message.topic = "TBW102"
            return message

    async def main(desk, facade):
        assert (await desk.send("T", properties="DELAY\x013\x02")).code == 0  # another process owns the delay now
        assert facade.store.bounds(Queue("T", 0)).max_offset == 0
        assert facade.store.bounds(Queue("TBW102", 0)).max_offset == 1

    with_service(plugins, main, interceptors=(Moves(),))


@pytest.mark.parametrize("reserved", [True, False])
def test_a_store_that_finds_no_room_to_start_has_what_is_reserved(plugins, reserved):
    reserve = Path("/store/config/reserve")

    class Needy(plugins.stores["memory"]):
        async def start(self):
            if self.world.files.stat(reserve) is not None or not reserved:
                error = OSError(errno.ENOSPC, "No space left on device")
                raise StoreError("the store cannot be opened: No space left on device") from error
            return await super().start()

    def of(context):
        store = Needy(context)
        store.world = context.world
        return store

    async def main(world):
        world.files.make_dirs(reserve.parent)
        if reserved:
            world.files.open(reserve, create=True).allocate(65536)
        settings = settings_for(plugins)
        server = BrokerServer(world, settings, Plugins(stores={"memory": of}))
        if reserved:
            await server.start()
            assert world.files.stat(reserve).size == ENOUGH_BYTES  # there is space again
            await server.stop()
        else:
            with pytest.raises(StoreError, match="No space left"):
                await server.start()

    simulate(1, main, start_ms=START_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_crash_no_committed_offset_is_left_behind_the_end_of_its_queue(plugins, caplog, clean):
    class Crashed(plugins.stores["memory"]):
        async def start(self):
            return attrs.evolve(await super().start(), clean=clean)

    async def main(world):
        settings, loaded = settings_for(plugins), Plugins(stores={"memory": Crashed})
        folder = Path("/store/config")
        topics = {"T": TopicConfig("T").to_json(), "Batch": TopicConfig("Batch", attributes={"a": "b"}).to_json()}
        save(world.files, folder / "topics.json", dumps({"topicConfigTable": topics}).decode())
        table = {"T@CG": {"0": 4, "1": 0}, "Batch@CG": {"0": 4}, "%LMQ%light@CG": {"0": 4}}
        save(world.files, folder / "consumerOffset.json", dumps({"offsetTable": table}).decode())
        server = BrokerServer(world, settings, loaded)
        await server.start()
        kept = {each: server.tables.offsets.committed("CG", Queue(each, 0)) for each in ("T", "Batch", "%LMQ%light")}
        await server.stop()
        await world.workers.close()
        return kept

    assert simulate(1, main) == {"T": 4 if clean else 0, "Batch": 4, "%LMQ%light": 4}
    assert ("4 consumed messages are lost" in caplog.text) is not clean


def test_what_a_connection_may_cost_is_set():
    assert limits_of(Settings(SCHEMA), 100_000).busy_poll_s == 0.0003
    given = {"maxConnections": 7, "serverChannelMaxIdleTimeSeconds": 9, "busyPollMicros": 50}
    limits = limits_of(Settings(SCHEMA, given), 100_000)
    assert (limits.max_connections, limits.idle_timeout_s, limits.busy_poll_s) == (7, 9.0, 0.00005)
