"""Every place that reports the lag of a group reports the same: commands, requests, lists, metrics, console, alerts."""

from __future__ import annotations

import json
import urllib.request
from importlib.util import find_spec
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from console_members import commit, join

from gantrymq.cli import main
from gantrymq.interfaces import Cleaning
from gantrymq.loose_json import loads
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.groups import (
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
)

PARTS = ("storage_mmap", "replication", "diagnosis", "metrics", "filter_tag")
SETTINGS = {"store": "mmap", "metricsPromExporterPort": 0}
pytestmark = [
    pytest.mark.gantrymq(settings=SETTINGS),
    pytest.mark.skipif(not all(find_spec(f"gantrymq_{each}") for each in PARTS), reason=f"needs {', '.join(PARTS)}"),
]
GROUP, RETRY = "billing", f"{RETRY_PREFIX}billing"


class Lag(NamedTuple):
    """What is expected of group `GROUP`."""

    behind: int | None
    deleted: int = 0
    retries: int = 0


def fill(visitor, topic="Orders", count=10, queues=1):
    """Create a topic with messages in its first queue."""
    visitor.running.create_topic(topic, queues)
    for _ in range(count):
        visitor.running.put(topic, b"body")


def a_topic_that_members_left(visitor):
    fill(visitor)
    fill(visitor, "Left", 8)
    commit(visitor, GROUP, "Orders", 7)
    commit(visitor, GROUP, "Left", 0)
    join(visitor, GROUP, "c1", "Orders")
    return Lag(3)


def broadcasting_after_a_commit(visitor):
    fill(visitor)
    commit(visitor, GROUP, "Orders", 2)
    join(visitor, GROUP, "c1", "Orders", messageModel="BROADCASTING")
    return Lag(None)


def retention_past_the_commit(visitor):
    running = visitor.running
    running.run(running.cluster.create_topic("Orders", 1))
    running.call(running.broker.topics.put, TopicConfig("Orders", 1, 1, attributes={"reserve.time": "1"}))
    for _ in range(16):
        running.put("Orders", b"body")
    commit(visitor, GROUP, "Orders", 5)
    while running.store.bounds(Queue("Orders", 0)).min_offset < 16:
        running.run(running.cluster.world.clock.sleep(0.01))
        running.run(running.store.clean(Cleaning.RESERVE_TIMES))
    running.call(running.broker.topics.put, TopicConfig("Orders", 1, 1))
    for _ in range(4):
        running.put("Orders", b"body")
    join(visitor, GROUP, "c1", "Orders")
    return Lag(4, deleted=11)


def reset(visitor, offset):
    fill(visitor)
    commit(visitor, GROUP, "Orders", 5)
    join(visitor, GROUP, "c1", "Orders")
    command(visitor, "group", "reset", GROUP, "-t", "Orders", "--to", str(offset))
    return Lag(10 - offset)


def reset_back(visitor):
    return reset(visitor, 2)


def reset_forward(visitor):
    return reset(visitor, 9)


def popping(visitor):
    fill(visitor)
    commit(visitor, GROUP, "Orders", 4)
    fill(visitor, f"{RETRY}_Orders", 2)
    join(visitor, GROUP, "c1", "Orders", consumeType="CONSUME_POP")
    return Lag(6, retries=2)


def retries(visitor):
    fill(visitor)
    fill(visitor, RETRY, 5)
    commit(visitor, GROUP, "Orders", 10)
    commit(visitor, GROUP, RETRY, 2)
    join(visitor, GROUP, "c1", "Orders")
    return Lag(0, retries=3)


def deleted_and_made_again(visitor):
    fill(visitor)
    commit(visitor, GROUP, "Orders", 7)
    join(visitor, GROUP, "c1", "Orders")
    visitor.running.run(visitor.client.admin.delete_topic("Orders"))
    fill(visitor, count=2)
    return Lag(2)


def stuck_in_order(visitor):
    fill(visitor)
    commit(visitor, GROUP, "Orders", 3)
    join(visitor, GROUP, "c1", "Orders")
    queue = MessageQueue("Orders", "broker-a", 0)
    visitor.running.call(visitor.running.broker.locks.lock, GROUP, "c1", [queue])
    return Lag(7)


def offline(visitor):
    fill(visitor, queues=2)
    commit(visitor, GROUP, "Orders", 6)
    visitor.running.put("Orders", b"body", queue_id=1)
    return Lag(5)


SITUATIONS = (
    a_topic_that_members_left,
    broadcasting_after_a_commit,
    retention_past_the_commit,
    reset_back,
    reset_forward,
    popping,
    retries,
    deleted_and_made_again,
    stuck_in_order,
    offline,
)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_all_report_the_same_lag(visitor, situation):
    expected = situation(visitor)
    told = {place.__name__: place(visitor) for place in PLACES}
    if situation is deleted_and_made_again:  # RocketMQ's 317 has no topics without a commit
        assert told.pop("request_317") == Lag(0)
    assert told == dict.fromkeys(told, expected)
    late = {place.__name__: place(visitor) for place in AGES}
    assert late == dict.fromkeys(late, bool(expected.behind) if expected.behind is not None else None)


def test_a_slave_reports_the_same_while_the_master_is_gone(visitor, tmp_path):
    from slave_without_master import slave_without_master

    expected = offline(visitor)

    def copied(broker):
        return broker.offsets.committed(GROUP, Queue("Orders", 0)) == 6 and broker.groups.get(GROUP) is not None

    with slave_without_master(visitor.running, tmp_path / "slave", copied=copied, settings=SETTINGS) as slave:
        visitor.cluster.forget()
        visitor.slave = slave
        told = {place.__name__: place(visitor) for place in PLACES}
        assert told == dict.fromkeys(told, expected)


def test_messages_that_were_deleted_unread_are_told_in_words(visitor):
    retention_past_the_commit(visitor)
    words = "11 messages were deleted before "
    shown = [CliRunner().invoke(main, ["group", each, GROUP, "-n", visitor.running.namesrv]).stdout for each in READ]
    assert [f"{words}{GROUP} read them" in shown[0], f"{words}the group read them" in shown[1]] == [True, True]
    assert f"{words}the group read them: {GROUP} is further behind" in visitor.get(f"/groups/{GROUP}").text


READ = ("progress", "explain")

# --- places ---------------------------------------------------------------------------------------------------------


def address_of(visitor):
    slave = getattr(visitor, "slave", None)
    return visitor.running.broker_address if slave is None else slave.broker_address


def command(visitor, *words):
    """Return the document of a command."""
    done = CliRunner().invoke(main, [*words, "-n", visitor.running.namesrv, "--output", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def ask(visitor, code, header):
    """Return the JSON body of the answer to a request."""

    async def work():
        return await visitor.client.admin.request(address_of(visitor), code, header)

    return loads(bytes(visitor.running.run(work()).payload).decode())


def summed(lags):
    """Return the sum, None if one is not known."""
    lags = list(lags)
    return None if None in lags else sum(lags)


def of_rows(rows):
    """Return the lag from pairs of topic and row with behind and deleted; retries of pops are not among them."""
    own = [row for topic, row in rows if not topic.startswith(RETRY_PREFIX)]
    return Lag(summed(row["behind"] for row in own), sum(row["deleted"] for row in own))


def retries_of(visitor):
    """Return the messages on retry topics, which requests 208 and 317 do not report of groups that pop."""
    return command(visitor, "group", "explain", GROUP)["brokers"][0]["retry"]["behind"]


def progress(visitor):
    found = command(visitor, "group", "progress", GROUP)
    lag = of_rows((each["topic"], each) for each in found["queues"])
    again = sum(each["behind"] for each in found["queues"] if each["topic"].startswith(RETRY_PREFIX))
    assert again in (0, retries_of(visitor))  # 0: a pop retry topic, which nobody subscribes to
    assert (found["behind"], found["deleted"]) == (None if lag.behind is None else lag.behind + again, lag.deleted)
    return lag._replace(retries=retries_of(visitor))


def explain(visitor):
    (found,) = command(visitor, "group", "explain", GROUP)["brokers"]
    assert of_rows((each["topic"], each) for each in found["queues"]) == Lag(found["behind"], found["deleted"])
    return Lag(found["behind"], found["deleted"], found["retry"]["behind"])


def listed(visitor):
    (found,) = command(visitor, "group", "list", "--by", "late", "--contains", GROUP)["brokers"][0]["groups"]
    return Lag(found["behind"], found["deleted"], found["retry_behind"])


def of_stats(visitor, stats):
    rows = [(key["topic"], row | {"deleted": row["deletedUnread"]}) for key, row in stats["offsetTable"].items()]
    return of_rows(rows)._replace(retries=retries_of(visitor))


def request_208(visitor):
    header = GetConsumeStatsRequest(consumer_group=GROUP, topic_list="Orders;Left")
    return of_stats(visitor, ask(visitor, RequestCode.GET_CONSUME_STATS, header))


def request_317(visitor):
    found = ask(visitor, RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsRequest())
    stats = next(each for groups in found["consumeStatsList"] for group, each in groups.items() if group == GROUP)
    table = {key: row for each in stats for key, row in each["offsetTable"].items()}
    return of_stats(visitor, {"offsetTable": table})


def scraped(visitor):
    """Return the samples of the group in a scrape: name, topic and value."""
    from prometheus_client.parser import text_string_to_metric_families

    cluster = getattr(visitor, "slave", visitor.running.cluster)
    service = next(each for each in cluster.plugins.services if each.name == "metrics")
    host, port = service.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("group") == GROUP:
                yield sample.name, sample.labels.get("topic", ""), sample.value


def metrics(visitor):
    found = {}
    for name, _, value in scraped(visitor):
        found[name] = found.get(name, 0) + value
    behind = found.get("rocketmq_group_diff")
    again = retries_of(visitor)
    assert found.get("rocketmq_group_retrydiff", 0) in (0, again)  # 0: a pop retry topic without a commit
    return Lag(behind, found.get("gantrymq_group_deleted_unread_messages_total", 0), again)


def console_page(visitor):
    found = visitor.api(f"/groups/{GROUP}")["data"]["head"]
    page = visitor.get(f"/groups/{GROUP}").text
    assert f"{found['lag'] or 'unknown'} Not consumed" in page
    behind = None if found["lag"] is None else int(found["lag"])
    topics = visitor.api(f"/groups/{GROUP}")["data"]["topics"]
    assert behind == summed(None if each["behind"] is None else int(each["behind"]) for each in topics)
    return Lag(behind, int(found["deleted"]), int(found["retries"]))


def console_list(visitor):
    (found,) = [each for each in visitor.api("/groups")["data"]["groups"] if each["name"] == GROUP]
    behind = None if found["lag"] is None else int(found["lag"])
    return console_page(visitor)._replace(behind=behind, retries=int(found["retries"]))


def console_topics(visitor):
    """Return the lag from the pages of topics."""
    lags = []
    for topic in ("Orders", "Left"):
        if visitor.get(f"/topics/{topic}").status == 200:
            groups = visitor.api(f"/topics/{topic}/groups")["data"]["groups"]
            lags += [each["lag"] for each in groups if each["group"] == GROUP]
    return console_page(visitor)._replace(behind=summed(None if each is None else int(each) for each in lags))


def alerts(visitor):
    """Return the lag that decides about alerts."""
    from gantrymq_console.data.attention import attention

    async def look():
        visitor.cluster.forget("late_groups")
        return (await attention(visitor.cluster, visitor.console.past)).value.late

    (found,) = [each for each in visitor.running.run(look()) if each.name == GROUP]
    return explain(visitor)._replace(behind=None if found.lag is None else int(found.lag))


PLACES = (
    progress,
    explain,
    listed,
    request_208,
    request_317,
    metrics,
    console_page,
    console_list,
    console_topics,
    alerts,
)

# --- ages -----------------------------------------------------------------------------------------------------------


def any_age(ages):
    """Return whether one of *ages* in milliseconds is more than 0 and less than that of this test; None: not known."""
    ages = list(ages)
    if None in ages:
        return None
    assert all(0 <= each < 120_000 for each in ages), ages
    return any(ages)


def age_of_progress(visitor):
    queues = command(visitor, "group", "progress", GROUP)["queues"]
    return any_age(each["late_ms"] for each in queues if not each["topic"].startswith(RETRY_PREFIX))


def age_of_explain(visitor):
    (found,) = command(visitor, "group", "explain", GROUP)["brokers"]
    return any_age([found["lag_ms"]])


def age_of_list(visitor):
    (found,) = command(visitor, "group", "list", "--by", "late", "--contains", GROUP)["brokers"][0]["groups"]
    return any_age([found["late_ms"]])


def age_of_303(visitor):
    header = QueryConsumeTimeSpanRequest(topic="Orders", group=GROUP)
    found = ask(visitor, RequestCode.QUERY_CONSUME_TIME_SPAN, header)["consumeTimeSpanSet"]
    return any_age(each["delayTime"] for each in found) or (None if explain(visitor).behind is None else False)


def age_of_metrics(visitor):
    name = "rocketmq_group_get_latency_by_storetime"
    found = [value for each, topic, value in scraped(visitor) if each == name and not topic.startswith(RETRY_PREFIX)]
    return any_age(found) if found else None


def age_of_console(visitor):
    return any_age([visitor.api(f"/groups/{GROUP}")["data"]["head"]["late_ms"]])


AGES = (age_of_progress, age_of_explain, age_of_list, age_of_303, age_of_metrics, age_of_console)
