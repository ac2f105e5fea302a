"""Lag by queue in a scrape, and the end of the series of deleted topics and groups."""

import pytest
from scraping import Figures, commit

from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request

NAME = "gantrymq_queue_lag_messages"


async def fill(cluster, topic, counts):
    """A topic with *counts* messages in its queues."""
    cluster.broker.topics.put(TopicConfig(topic, len(counts), len(counts)))
    for queue_id, count in enumerate(counts):
        for _ in range(count):
            await cluster.put(topic, b"x", queue_id=queue_id)


def by_queue(figures, **labels):
    """Lag by the label `queue`."""
    found = [each for each in figures.samples if each.name == NAME and labels.items() <= each.labels.items()]
    return {each.labels["queue"]: each.value for each in found}


def test_every_queue_has_a_series_while_there_is_room(beside, scrape):
    async def lag(cluster, service):
        await fill(cluster, "Orders", (3, 2, 1, 0))
        for queue_id, offset in ((0, 1), (1, 2)):
            commit(cluster, "readers", Queue("Orders", queue_id), offset)
        return await scrape(cluster, service)

    figures = beside(lag)
    labels = {"cluster": "DefaultCluster", "broker": "broker-a", "topic": "Orders", "group": "readers"}
    assert by_queue(figures, **labels) == {"0": 2, "1": 0, "2": 1}
    assert figures("rocketmq_group_diff", group="readers") == 3


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (3, {"Orders": {"0": 3, "1": 9, "other": 3}, "Bills": {"0": 5, "other": 1}}),
        (1, {"Orders": {"1": 9, "other": 6}, "Bills": {"other": 6}}),
        (0, {"Orders": {}, "Bills": {}}),
    ],
)
def test_the_largest_lags_have_a_series_and_the_others_are_summed_by_topic_and_group(beside, scrape, limit, shown):
    async def lag(cluster, service):
        await fill(cluster, "Orders", (4, 9, 2, 1))
        await fill(cluster, "Bills", (5, 1))
        for queue_id in range(3):
            commit(cluster, "readers", Queue("Orders", queue_id), int(queue_id == 0))
        commit(cluster, "readers", Queue("Bills", 0), 0)
        return await scrape(cluster, service)

    figures = beside(lag, settings={"metricsQueueLagLimit": limit})
    assert {topic: by_queue(figures, topic=topic, group="readers") for topic in shown} == shown
    for topic in filter(shown.get, shown):
        diff = figures("rocketmq_group_diff", group="readers", topic=topic)
        assert sum(by_queue(figures, topic=topic).values()) == diff


def test_groups_without_commits_in_most_queues_are_as_late_as_the_oldest_message_there(beside, scrape):
    async def lag(cluster, service):
        cluster.broker.topics.put(TopicConfig("Orders", 3, 3))
        for queue_id in range(3):
            await cluster.put("Orders", b"x", queue_id=queue_id)
            await cluster.world.clock.sleep(10)
        commit(cluster, "one", Queue("Orders", 0), 1)
        commit(cluster, "two", Queue("Orders", 1), 1)
        for queue_id in range(3):
            commit(cluster, "all", Queue("Orders", queue_id), 1)
        return await scrape(cluster, service)

    figures = beside(lag)
    late = {group: figures("rocketmq_group_get_latency_by_storetime", group=group) for group in ("one", "two", "all")}
    assert 19_000 < late["one"] < 21_000  # queue 1
    assert 29_000 < late["two"] < 31_000  # queue 0
    assert late["all"] == 0
    assert [figures("rocketmq_group_diff", group=group) for group in ("one", "two", "all")] == [2, 2, 0]


def test_unread_messages_that_are_deleted_are_counted_once(beside, scrape, monkeypatch):
    name, first = "gantrymq_group_deleted_unread_messages_total", [0]

    async def count(cluster, service):
        await fill(cluster, "Orders", (20,))
        store, real = cluster.store, cluster.store.bounds
        monkeypatch.setattr(store, "bounds", lambda queue: real(queue)._replace(min_offset=first[0]))
        seen = []
        for minimum, committed in ((0, 2), (5, 2), (5, 2), (7, 2), (7, 10), (12, 10), (12, 20), (12, 3), (14, 20)):
            first[0] = minimum
            commit(cluster, "readers", Queue("Orders", 0), committed)
            seen.append((await scrape(cluster, service))(name, group="readers", topic="Orders"))
        return seen

    assert beside(count) == [0, 3, 3, 5, 5, 7, 7, 7, 7]


def labelled(figures, label, name):
    """Names of all samples with this label value."""
    return {each.name for each in figures.samples if each.labels.get(label) == name}


def test_the_series_of_a_deleted_group_end_though_its_offsets_are_kept(beside, scrape):
    async def delete(cluster, service):
        await fill(cluster, "Orders", (1,))
        commit(cluster, "readers", Queue("Orders", 0), 0)
        cluster.broker.metrics.count_delivery("readers", "Orders", 1, 100)
        before = await scrape(cluster, service)
        client = RemotingClient(cluster.world)
        connection = await client.connect(cluster.broker_address)
        asked = request(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers", "cleanOffset": "false"})
        assert (await connection.call(asked, 10.0)).code == 0
        await client.close()
        assert cluster.broker.offsets.committed("readers", Queue("Orders", 0)) == 0
        return before, await scrape(cluster, service)

    before, after = beside(delete)
    for label, name in (("group", NAME), ("consumer_group", "rocketmq_messages_out_total")):
        assert name in labelled(before, label, "readers")
        assert labelled(after, label, "readers") == set()


@pytest.mark.parametrize("store", ["memory", "mmap"])
def test_the_series_of_a_deleted_topic_and_of_a_deleted_group_end(gantrymq_broker_factory, http, store):
    pytest.importorskip("gantrymq_filter_tag")
    pytest.importorskip(f"gantrymq_storage_{store}")
    running = gantrymq_broker_factory({"store": store})
    cluster = running.cluster
    service = next(each for each in cluster.plugins.services if each.name == "metrics")
    retries, letters = RETRY_PREFIX + "readers", DLQ_PREFIX + "readers"

    async def figures():
        return Figures((await http.get(cluster.world, service.address, "/metrics")).body)

    async def delete():
        for topic in ("Orders", "Bills", retries, letters):
            cluster.broker.topics.put(TopicConfig(topic, 1, 1))
            await cluster.put(topic, b"x")
        client = RemotingClient(cluster.world)
        connection = await client.connect(cluster.broker_address)
        for topic in ("Orders", "Bills", retries):
            commit(cluster, "readers", Queue(topic, 0), 0)
            cluster.broker.metrics.count_delivery("readers", topic, 1, 100)
        back = {"offset": "0", "group": "readers", "delayLevel": "-1", "originMsgId": "", "originTopic": "Orders"}
        assert (await connection.call(request(36, back | {"unitMode": "false"}), 10.0)).code == 0
        before = await figures()
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        assert (await connection.call(request(code, {"topic": "Orders"}), 10.0)).code == 0
        without_topic = await figures()
        group = {"groupName": "readers", "cleanOffset": "true"}
        assert (await connection.call(request(RequestCode.DELETE_SUBSCRIPTIONGROUP, group), 10.0)).code == 0
        for topic in (retries, letters):  # `gantrymq group delete` and mqadmin delete these, too
            assert (await connection.call(request(code, {"topic": topic}), 10.0)).code == 0
        without_group = await figures()
        await client.close()
        return before, without_topic, without_group

    before, without_topic, without_group = running.run(delete())
    expected = {NAME, "rocketmq_messages_in_total", "rocketmq_messages_out_total", "rocketmq_group_diff"}
    assert expected | {"rocketmq_producer_offset", "rocketmq_send_to_dlq_messages_total"} <= labelled(
        before, "topic", "Orders"
    )
    assert labelled(without_topic, "topic", "Orders") == set()
    assert expected <= labelled(without_topic, "topic", "Bills")
    assert {"rocketmq_group_dlqdiff", "rocketmq_group_retrydiff", NAME} <= labelled(without_topic, "group", "readers")
    for label in ("group", "consumer_group"):
        assert labelled(without_group, label, "readers") == set()
    for topic in (retries, letters):
        assert labelled(without_group, "topic", topic) == set()
    assert labelled(without_group, "topic", "Bills") != set()
