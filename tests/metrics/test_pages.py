"""The two pages of a running broker: figures right after sends and pulls, and its health."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rocketmq_names import EXPORTER, ROCKETMQ_5, ROCKETMQ_5_OF_PLUGINS
from scraping import Figures, commit

from gantrymq.client import Client
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import AccessSummary, MetricFamily, StoreMessage, StoreState
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_metrics.http_request import JSON
from gantrymq_metrics.send_times import SendTimes
from gantrymq_metrics.service import health
from gantrymq_metrics.snapshot import ScrapeMemory, take_snapshot

ORDERS = {"topic": "Orders"}
PULL = {
    "consumerGroup": "readers",
    "topic": "Orders",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}
ALONE = {"plugins": "metrics,storage_memory,filter_tag"}  # no other plugin shows figures


def test_an_idle_broker_shows_every_family_once(beside, scrape):
    figures = beside(scrape)
    assert figures("rocketmq_broker_permission", node_type="broker", node_id="broker-a") == 6
    assert figures("rocketmq_broker_tps", broker="broker-a") == 0
    assert figures("gantrymq_store_writable") == 1
    assert figures("gantrymq_send_seconds_count") == 0
    assert all(family.documentation.endswith(".") for family in figures.families.values())


def test_the_readme_lists_every_family(beside, scrape):
    figures = beside(scrape, settings=ALONE)
    readme = Path(__file__).resolve().parents[2] / "plugins/metrics/README.md"
    table = readme.read_text().partition("## The metrics")[2].partition("The broker's own labels")[0]
    listed = re.findall(r"`((?:rocketmq|gantrymq)_\w+)`", table)
    shown = [name + "_total" * (family.type == "counter") for name, family in figures.families.items()]
    assert sorted(listed) == sorted(shown)


def test_output_of_plugins_follows_the_rest(beside, scrape):
    class Tides:
        name = "tides"

        async def start(self, broker):
            broker.metrics.register(
                lambda: MetricFamily("gantrymq_tide_metres", "Tides.", ("place",), {("Cuxhaven",): 1.5, ("Brest",): 3})
            )
            broker.metrics.register(lambda: MetricFamily("gantrymq_moons_total", "Moons.", (), {(): 13}, counter=True))
            broker.metrics.register(
                lambda: MetricFamily("rocketmq_group_diff_of_moons", "None.", (), {(): 1}, as_exporter=True)
            )
            broker.metrics.register(lambda: MetricFamily("rocketmq_timing_moons", "Moons.", ("topic",), {("M",): 2}))

        async def stop(self):
            pass

    class Plugin:
        @hookimpl
        def gantry_register_services(self, registry):
            registry.add(Tides())

    figures = beside(scrape, plugins=[Plugin()])
    assert figures("gantrymq_tide_metres", place="Brest", broker="broker-a") == 3
    assert figures("gantrymq_moons_total", broker="broker-a") == 13
    assert figures("rocketmq_group_diff_of_moons", broker="broker-a") == 1
    assert figures("rocketmq_timing_moons", topic="M", node_id="broker-a") == 2


def test_every_name_of_rocketmq_s_exists_there(beside, scrape):
    figures = beside(scrape, settings=ALONE)
    shown = {name + "_total" * (family.type == "counter") for name, family in figures.families.items()}
    of_rocketmq = {name for name in shown if not name.startswith("gantrymq_")}
    assert of_rocketmq - EXPORTER - ROCKETMQ_5 - ROCKETMQ_5_OF_PLUGINS == set()
    assert of_rocketmq >= ROCKETMQ_5
    assert len(EXPORTER & of_rocketmq) > 20
    assert not EXPORTER & ROCKETMQ_5


def test_a_refusal_of_the_store_has_its_cause_as_a_label(beside, scrape):
    async def refuse(cluster, service):
        before = await scrape(cluster, service)
        await cluster.store.stop()
        return before, await scrape(cluster, service)

    before, after = beside(refuse)
    assert (before("gantrymq_store_writable"), before("gantrymq_store_refusal")) == (1, None)
    assert (after("gantrymq_store_writable"), after("gantrymq_store_refusal", cause="not_running")) == (0, 1)


def test_core_and_a_store_are_enough(beside, scrape):
    async def store(cluster, service):
        assert {each.name for each in cluster.plugins.infos if each.state.value == "loaded"} == {
            "metrics",
            "storage_memory",
        }
        await cluster.create_topic("Orders", 1)
        await cluster.put("Orders", b"x")
        return await scrape(cluster, service)

    figures = beside(store, settings={"plugins": "metrics,storage_memory"})
    assert figures("rocketmq_messages_in_total", **ORDERS) == 1


def test_sends_are_counted_by_topic_with_their_sizes_and_times(beside, scrape):
    async def send(cluster, service):
        await cluster.create_topic("Orders", 2)
        for _ in range(3):
            await cluster.send("Orders", b"x" * 1000)
        await cluster.world.clock.sleep(30)
        return await scrape(cluster, service), cluster.store.state(), cluster.world.clock.now_ms()

    figures, state, now_ms = beside(send)
    assert figures("rocketmq_messages_in_total", **ORDERS) == 3
    assert figures("rocketmq_throughput_in_total", **ORDERS) == state.max_log_offset > 3000
    assert figures("rocketmq_producer_offset", **ORDERS) == 3
    assert figures("rocketmq_producer_tps", **ORDERS) == pytest.approx(3 / 20, rel=0.4)
    assert figures("rocketmq_brokeruntime_commitlog_maxoffset") == state.max_log_offset
    assert now_ms - 31_000 < figures("rocketmq_brokeruntime_earliest_message_timestamp") <= now_ms - 30_000
    assert figures("rocketmq_brokeruntime_putmessage_times_total", broker="broker-a") == 3
    assert figures("rocketmq_brokeruntime_put_message_size_total") == state.max_log_offset
    assert figures("rocketmq_brokeruntime_dispatch_behind_bytes") == 0
    assert figures("gantrymq_send_seconds_count") == figures("gantrymq_send_seconds_bucket", le="+Inf") == 3
    assert figures("rocketmq_producer_count", group="testing_sender") == 1
    assert figures("rocketmq_producer_connections") == 1
    assert figures("gantrymq_connections") >= 1


def test_pulls_and_commits_are_counted_by_group_and_what_is_left_is_its_lag(beside, scrape):
    async def consume(cluster, service):
        await cluster.create_topic("Orders", 1)
        for _ in range(5):
            await cluster.send("Orders", b"x")
        await cluster.pull("Orders")
        commit(cluster, "readers", Queue("Orders", 0), 2)
        await cluster.world.clock.sleep(4)
        return await scrape(cluster, service)

    figures = beside(consume)
    key = {"topic": "Orders", "consumer_group": "testing_reader"}
    assert figures("rocketmq_messages_out_total", **key) == 5
    assert figures("rocketmq_throughput_out_total", **key) == figures("rocketmq_throughput_in_total", **ORDERS)
    assert figures("gantrymq_pulls_total", outcome="found") >= 1
    assert figures("rocketmq_consumer_offset", group="readers") == 2
    lag = {"group": "readers", "topic": "Orders", "countOfOnlineConsumers": "0", "msgModel": "CLUSTERING"}
    assert figures("rocketmq_group_diff", **lag) == 3
    assert figures("rocketmq_group_retrydiff", group="readers") is None
    assert 4000 <= figures("rocketmq_group_get_latency_by_storetime", group="readers") < 6000
    own = {"consumer_group": "readers", "topic": "Orders", "is_retry": "false", "is_system": "false"}
    assert figures("rocketmq_consumer_lag_messages", **own) == 3
    assert 4000 <= figures("rocketmq_consumer_lag_latency", **own) < 6000


def test_messages_to_be_tried_again_and_dead_letters(beside, scrape):
    async def fail(cluster, service):
        for name in ("%RETRY%readers", "%DLQ%readers"):
            cluster.broker.topics.put(TopicConfig(name, 1, 1))
            for _ in range(3):
                await cluster.put(name, b"x")
        commit(cluster, "readers", Queue("%RETRY%readers", 0), 1)
        return await scrape(cluster, service)

    figures = beside(fail)
    assert figures("rocketmq_group_retrydiff", group="readers", topic="%RETRY%readers") == 2
    assert figures("rocketmq_group_dlqdiff", group="readers", topic="%DLQ%readers") == 3
    assert figures("rocketmq_topic_retry_offset", topic="%RETRY%readers") == 3
    assert figures("rocketmq_topic_dlq_offset", group="readers") == 3
    assert figures("rocketmq_consumer_lag_messages", consumer_group="readers") is None


def test_messages_that_were_pulled_and_are_not_committed_are_in_flight(beside, scrape):
    async def consume(cluster, service):
        await cluster.create_topic("Orders", 2)
        for _ in range(5):
            await cluster.put("Orders", b"x")
        client = RemotingClient(cluster.world)
        connection = await client.connect(cluster.broker_address)
        await connection.call(request(11, PULL), 10.0)
        commit(cluster, "readers", Queue("Orders", 0), 2)
        found = await scrape(cluster, service)
        commit(cluster, "readers", Queue("Orders", 0), 5)
        await client.close()
        return found, await scrape(cluster, service)

    before, after = beside(consume)
    own = {"consumer_group": "readers", "topic": "Orders", "is_retry": "false", "is_system": "false"}
    assert before("rocketmq_consumer_inflight_messages", **own) == 3
    assert after("rocketmq_consumer_inflight_messages", **own) == 0


def test_messages_that_a_plugin_says_are_in_flight_are_added_to_those_pulled(beside, scrape):
    async def show(cluster, service):
        labels = ("topic", "consumer_group", "is_retry", "is_system")
        values = {("Orders", "poppers", "false", "false"): 2, ("Orders", "poppers", "true", "false"): 1}
        cluster.broker.metrics.register(
            lambda: MetricFamily("rocketmq_consumer_inflight_messages", "Out.", labels, values)
        )
        return await scrape(cluster, service)

    figures = beside(show, settings=ALONE)
    own = {"consumer_group": "poppers", "topic": "Orders"}
    assert figures("rocketmq_consumer_inflight_messages", is_retry="false", **own) == 2
    assert figures("rocketmq_consumer_inflight_messages", is_retry="true", **own) == 1


def test_messages_that_became_dead_letters_are_counted(beside, scrape):
    async def fail(cluster, service):
        await cluster.create_topic("Orders", 1)
        await cluster.put("Orders", b"x")
        cluster.broker.groups.require("readers")
        client = RemotingClient(cluster.world)
        connection = await client.connect(cluster.broker_address)
        back = {"offset": "0", "group": "readers", "delayLevel": "-1", "originMsgId": "", "originTopic": "Orders"}
        assert (await connection.call(request(36, back | {"unitMode": "false"}), 10.0)).code == 0
        send = {"a": "P", "b": "%RETRY%readers", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0"}
        assert (await connection.call(request(310, send | {"j": "17", "m": "false"}, b"x"), 10.0)).code == 0
        await client.close()
        return await scrape(cluster, service)

    figures = beside(fail)
    own = {"consumer_group": "readers", "is_system": "false"}
    assert figures("rocketmq_send_to_dlq_messages_total", topic="Orders", **own) == 1
    assert figures("rocketmq_send_to_dlq_messages_total", topic="%RETRY%readers", **own) == 1


def test_a_group_that_has_everything_is_not_late(beside, scrape):
    async def consume(cluster, service):
        await cluster.create_topic("Orders", 1)
        await cluster.send("Orders", b"x")
        commit(cluster, "readers", Queue("Orders", 0), 1)
        commit(cluster, "gone", Queue("Nowhere", 0), 1)
        return await scrape(cluster, service)

    figures = beside(consume)
    assert figures("rocketmq_group_diff", group="readers") == 0
    assert figures("rocketmq_group_get_latency_by_storetime", group="readers") == 0
    assert figures("rocketmq_group_diff", group="gone") is None


def test_today_is_told_from_yesterday(beside, scrape):
    async def two_days(cluster, service):
        await cluster.create_topic("Orders", 1)
        stats = cluster.broker.metrics._parts.stats
        for count, days in ((3, 1), (2, 1), (1, 0)):
            for _ in range(count):
                await cluster.send("Orders", b"x")
            stats.today(stats._day + days)
        await cluster.pull("Orders")
        return await scrape(cluster, service)

    figures = beside(two_days)
    runtime = "rocketmq_brokeruntime_msg_"
    names = ("puttotal_yesterdaymorning", "puttotal_todaymorning", "put_total_today_now")
    assert [figures(runtime + name) for name in names] == [3, 5, 6]
    names = ("gettotal_yesterdaymorning", "gettotal_todaymorning", "gettotal_today_now")
    assert [figures(runtime + name) for name in names] == [0, 0, 6]


def test_members_of_consumer_groups_are_counted(beside, scrape):
    async def join(cluster, service):
        await cluster.create_topic("Orders", 1)
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer("members", "Orders") as consumer,
        ):
            await consumer.wait_assigned()
            return await scrape(cluster, service)

    assert beside(join)("rocketmq_group_count", group="members", broker="broker-a") == 1


def test_errors_of_plugins_are_counted_by_kind_and_name(beside, scrape):
    async def fail(cluster, service):
        for kind, name in (("gate", "replicas"), ("filter", "SQL92"), ("gate", "replicas")):
            cluster.broker.metrics._parts.stats.plugin_failed(kind, name)
        return await scrape(cluster, service)

    figures = beside(fail)
    assert figures("gantrymq_plugin_errors_total", kind="gate", name="replicas", broker="broker-a") == 2
    assert figures("gantrymq_plugin_errors_total", kind="filter", name="SQL92") == 1


def test_pulls_that_wait_are_shown_while_they_do(beside, scrape):
    async def wait(cluster, service):
        await cluster.create_topic("Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.reader(group="readers") as consumer:
            (queue,) = await consumer.queues("Orders")
            pull = asyncio.ensure_future(consumer.pull(queue, 0, suspend_ms=10_000))
            await cluster.world.clock.sleep(1)
            during = await scrape(cluster, service)
            await cluster.send("Orders", b"x")
            await pull
            return during, await scrape(cluster, service)

    during, after = beside(wait)
    assert (during("gantrymq_pulls_held"), after("gantrymq_pulls_held")) == (1, 0)


def test_scrapers_that_come_together_share_one_scrape(beside, http):
    async def together(cluster, service):
        asked = [http.get(cluster.world, service.address, "/metrics") for _ in range(5)]
        return {answer.body for answer in await asyncio.gather(*asked)}

    assert len(beside(together)) == 1


def test_the_store_on_disk_says_how_often_it_synced(gantrymq_broker_factory, http):
    for needed in ("gantrymq_storage_mmap", "gantrymq_filter_tag"):
        pytest.importorskip(needed)
    running = gantrymq_broker_factory({"store": "mmap"})
    running.create_topic("Orders", 1)
    running.send("Orders", b"x")
    service = next(each for each in running.cluster.plugins.services if each.name == "metrics")
    figures = Figures(running.run(http.get(running.cluster.world, service.address, "/metrics")).body)
    assert figures("gantrymq_store_syncs_total") >= 1
    assert figures("gantrymq_store_sync_seconds_total") > 0
    assert figures("rocketmq_brokeruntime_remain_howmanydata_toflush") == 0
    assert 0 < figures("rocketmq_brokeruntime_commitlog_disk_ratio") <= 1
    assert figures("gantrymq_send_seconds_count") == 1


def test_a_well_broker_is_healthy(beside, http):
    answer = beside(lambda cluster, service: http.get(cluster.world, service.address, "/healthz"))
    assert (answer.status, answer.headers["Content-Type"]) == (200, JSON)
    assert answer.body.startswith(b'{"healthy": true, "problems": [], ')


def test_a_broker_that_its_name_server_lost_is_not(beside, http):
    async def lose(cluster, service):
        await cluster._name_server.stop()
        await cluster.world.clock.sleep(120)
        return await http.get(cluster.world, service.address, "/healthz")

    answer = beside(lose)
    assert answer.status == 503
    assert b"no name server has this broker registered: 127.0.0.1:" in answer.body


def seen(refusal=None, addresses="", servers=None, unwritten=None, access=None):
    """A broker as the health check sees it."""
    state = StoreState(0, 0, 0, 0, refusal)
    figures = SimpleNamespace(
        cluster="C",
        broker="b",
        address="h:1",
        name_servers=servers or {},
        parked={},
        unwritten=unwritten or {},
        plugin_metrics=(
            MetricFamily("odd", "Odd.", (), {(): 1}, sentences={(): "it is odd"}, health={"odd": [1], "broker": 0}),
        ),
    )
    return SimpleNamespace(
        settings=SimpleNamespace(text=lambda key: addresses),
        access=SimpleNamespace(summary=access or AccessSummary()),
        store=SimpleNamespace(state=lambda: state),
        metrics=SimpleNamespace(snapshot=lambda: figures),
    )


@pytest.mark.parametrize(
    ("broker", "problems"),
    [
        (seen(), []),
        (seen(addresses="a:1;b:1", servers={"a:1": None, "b:1": "timed out"}), []),
        (seen(refusal="the disk is full"), ["the store refuses writes: the disk is full"]),
        (seen(unwritten={"topics.json": "it cannot be written"}), ["it cannot be written"]),
        (seen(addresses="a:1"), ["no name server has this broker registered: not registered yet"]),
        (
            seen(addresses="a:1;b:1", servers={"a:1": "refused", "b:1": "timed out"}),
            ["no name server has this broker registered: a:1: refused; b:1: timed out"],
        ),
    ],
)
def test_each_problem_is_a_sentence(broker, problems):
    found = health(broker)
    assert (found["healthy"], found["problems"], found["warnings"]) == (not problems, problems, ["it is odd"])


def test_the_health_check_names_access_control_addresses_without_it_and_members_of_plugins():
    assert health(seen())["access"] is None
    guarded = AccessSummary("acl", "stateless", ("the broker listens on 10.0.0.5",))
    found = health(seen(access=guarded))
    assert found["access"] == {"authorizer": "acl", "strategy": "stateless"}
    assert (found["odd"], found["broker"]) == ([1], "b"), "plugins add members, and change none"
    assert (found["healthy"], found["warnings"]) == (True, ["the broker listens on 10.0.0.5", "it is odd"])


def test_twenty_thousand_queues_are_read_in_short_steps(beside, monkeypatch):
    """The number of queues read per turn of the event loop is bounded, also with lag on all of them."""

    async def work(cluster, service):
        cluster.broker.topics.put(TopicConfig("Wide", 20_000, 20_000))
        for start in range(0, 20_000, 1000):
            letters = [StoreMessage("Wide", start + at, b"x", b"") for at in range(1000)]
            await cluster.broker.messages.put_all(letters)
        commit(cluster, "readers", Queue("Wide", 0), 0)
        looks = most = 0
        bounds = cluster.broker.store.bounds

        def counting(queue):
            nonlocal looks, most
            looks += 1
            most = max(most, looks)
            return bounds(queue)

        async def others():
            nonlocal looks
            while True:
                looks = 0
                await asyncio.sleep(0)

        monkeypatch.setattr(cluster.broker.store, "bounds", counting)
        beside_it = asyncio.ensure_future(others())
        moment = await take_snapshot(cluster.broker, SendTimes(), ScrapeMemory())
        beside_it.cancel()
        assert moment.ends["Wide"] == 20_000
        assert [each.lag for each in moment.lags if each.group == "readers"] == [20_000]
        return most

    assert 0 < beside(work, settings=ALONE) <= 400
