"""Lags at brokers that report offsets only, as RocketMQ's do: computed as brokers of GantryMQ do."""

import json

import attrs
import pytest

from gantrymq.client import Client
from gantrymq.client.admin import GroupClient, GroupClients
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq_admin.progress import GroupQueue, ages_of, lag_sum, members_of, oldest_age, progress_of, totals_of

GONE_MS = 1795892985001  # RocketMQ's delay of a message whose store time cannot be read
BOUNDS = {"T": (16, 20), "New": (0, 3), "%RETRY%G": (0, 2)}
COMMITS = {"T": 5, "%RETRY%G": 1}


def table(rows):
    found = {}
    for topic, row in rows.items():
        found[json.dumps({"brokerName": "a", "queueId": 0, "topic": topic}, separators=(",", ":"))] = row
    body = ",".join(f"{key}:{json.dumps(row)}" for key, row in found.items())
    return Command(0, body=f'{{"offsetTable":{{{body}}}}}'.encode())


def stats(request):
    """208: topics with a commit, or the one that is named."""
    named = (request.ext or {}).get("topic")
    topics = [named] if named else COMMITS
    return table({each: {"brokerOffset": BOUNDS[each][1], "consumerOffset": COMMITS.get(each, 0)} for each in topics})


def bounds(request):
    topic = request.ext["topic"]
    if topic not in BOUNDS:
        return Command(17)
    return table({topic: {"minOffset": BOUNDS[topic][0], "maxOffset": BOUNDS[topic][1]}})


def spans(request):
    queue = {"brokerName": "a", "queueId": 0, "topic": request.ext["topic"]}
    delay = GONE_MS if request.ext["topic"] == "T" else 7000
    return Command(0, body=json.dumps({"consumeTimeSpanSet": [{"messageQueue": queue, "delayTime": delay}]}).encode())


@pytest.fixture
def asked(simulate, cluster):
    """Return progress and ages of group G by topic, with its members."""

    def run(online):
        async def main(world):
            async with cluster(world, "a") as servers, Client(servers.namesrv, world=world) as client:
                broker = servers.brokers["a"]
                broker.answers |= {
                    RequestCode.GET_CONSUME_STATS: stats,
                    RequestCode.GET_TOPIC_STATS_INFO: bounds,
                    RequestCode.QUERY_CONSUME_TIME_SPAN: spans,
                }
                found = await progress_of(client.admin, broker.address, "G", online)
                ages = await ages_of(client.admin, broker.address, "G", found)
                return {queue.topic: (each.lag, each.deleted, ages[queue]) for queue, each in found.items()}

        return simulate(main)

    return run


def members(model, *topics):
    wanted = tuple(Subscription(each, "*") for each in topics)
    return GroupClients((), "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", wanted)


def test_only_messages_that_exist_count_and_subscribed_topics_too(asked):
    assert asked(members("CLUSTERING", "T", "New", "%RETRY%G")) == {
        "T": (4, 11, None),
        "New": (3, 0, 7000),
        "%RETRY%G": (1, 0, 7000),
    }
    assert asked(None) == {"T": (4, 11, None), "%RETRY%G": (1, 0, 7000)}


def test_the_lag_of_members_that_broadcast_is_not_known(asked):
    assert asked(members("BROADCASTING", "T", "New")) == {"T": (None, None, None), "%RETRY%G": (1, None, 7000)}


def test_sums_and_ages_are_not_known_if_one_is_not():
    assert [lag_sum(lags) for lags in ([], [1, 2], [1, None])] == [0, 3, None]
    assert [oldest_age(ages) for ages in ([], [1, 7], [1, None])] == [0, 7, None]


def test_totals_say_whether_all_deleted_messages_are_known():
    def queue(behind, late_ms, deleted):
        return GroupQueue("T", "a", 0, 20, 5, behind, 5, 0, late_ms, deleted)

    known = totals_of([queue(4, 7, 11), queue(0, 0, None)])
    assert (known.behind, known.late_ms, known.deleted, known.deleted_known) == (4, 7, 11, True)
    unknown = totals_of([queue(4, 7, 11), queue(2, None, None), queue(None, None, 1)])
    assert (unknown.behind, unknown.late_ms, unknown.deleted, unknown.deleted_known) == (None, None, 12, False)


def test_members_of_several_brokers_have_the_subscriptions_of_all():
    client = GroupClient("c1", "10.0.0.9:1", "JAVA", 479)
    one, other = attrs.evolve(members("CLUSTERING", "T", "A"), clients=(client,)), members("CLUSTERING", "B", "T")
    found = members_of({"a": one, "b": other, "c": None})
    assert [each.topic for each in found.subscriptions] == ["A", "B", "T"]
    assert (found.clients, found.message_model) == ((("a", client),), "CLUSTERING")
    assert (members_of({"a": None}).clients, members_of({}).consume_type) == ((), "")
