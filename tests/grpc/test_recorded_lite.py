"""The recorded conversation about lite topics and priorities with RocketMQ 5.5.0, see tests/golden/README.md.

It is replayed with a simulated broker: codes, texts and fields are equal. What differs is listed, each with its reason;
docs/operations/from-proxy.md says the same to users.
"""

import asyncio

import pytest

pytest.importorskip("gantrymq_grpc")
pytest.importorskip("gantrymq_lite")
pytest.importorskip("gantrymq_storage_mmap")

from google.protobuf.json_format import MessageToDict
from grpc_recorded import conversation, rows
from grpc_replay import OWN, Replay, as_dict, grouped, stripped

from gantrymq.plugin.model import GroupConfig
from gantrymq_grpc.definitions import Code

NAME = "grpc_lite"
LIGHT_QUEUES = {"store": "mmap", "enableLmq": True, "enableMultiDispatch": True}
SETTINGS = {  # by session
    "cluster": LIGHT_QUEUES,
    "attempts": LIGHT_QUEUES,
    "acknowledged": LIGHT_QUEUES,
    "quotas": {**LIGHT_QUEUES, "maxLiteSubscriptionCount": 3, "maxLmqConsumeQueueNum": 0},
    # Session local is a proxy in local mode, which has no lite topics.
}
TOPICS = {
    "LiteParent3": (1, "LITE"),
    "LiteSuspend": (1, "LITE"),
    "LiteQuota": (1, "LITE"),
    "PlainTopic": (4, "NORMAL"),
    "PrioTopic3": (4, "PRIORITY"),
}
GROUPS = {
    "GLiteShared3": {"lite.bind.topic": "LiteParent3", "lite.sub.client.quota": "5"},
    "GLiteExclusive3": {"lite.bind.topic": "LiteParent3", "lite.sub.model": "Exclusive"},
    "GLiteSuspend": {"lite.bind.topic": "LiteSuspend", "lite.sub.client.quota": "5"},
    "GLiteQuota": {"lite.bind.topic": "LiteQuota", "lite.sub.client.quota": "5"},
    "GUnbound": {},
    "GPrio": {},
}

CODES = {  # (method, note): our code, where RocketMQ's proxy answers another one
    ("SendMessage", "priority -1"): Code.BAD_REQUEST,  # it stays invalid however often it is sent
    ("SyncLiteSubscription", "unknown group"): Code.CONSUMER_GROUP_NOT_FOUND,  # as for other requests
    # One that was sent just after the removal is not delivered, as little as later ones.
    ("ReceiveMessage", "chat-b was removed"): Code.MESSAGE_NOT_FOUND,
    # Served by the fields of the request: an ordinary group gets messages of the parent topic, and a client without
    # subscriptions gets none.
    ("ReceiveMessage", "a group that is not bound"): Code.OK,
    ("ReceiveMessage", "PUSH_CONSUMER of a lite group"): Code.MESSAGE_NOT_FOUND,
    # The record that the handle names has the lite topic, so the message before is acknowledged.
    ("ReceiveMessage", "after the acknowledgement without lite_topic"): Code.OK,
}
BODIES = {  # bodies of more messages than recorded, for the same reason as "chat-b was removed"
    ("ReceiveMessage", "what was sent between removal and addition"): [b"b2", b"b3"],
}
FIELDS = {  # (method, note): fields that differ
    ("ReceiveMessage", "after 1 s: order within chat-a"): {"delivery_attempt"},  # ours counts each delivery
}
TEXTS = {  # methods with texts of our own: they name the remedy
    "SendMessage",
    "SyncLiteSubscription",
    "Telemetry",
}
RUNS = OWN - {"queue_id", "queue_offset", "offset", "message_id"} | {
    # RocketMQ sends both to consumers of every type; the recorded proxy was set to wait 5 s.
    "long_polling_timeout"
}
OF_OTHERS = {"lite_subscription_quota", "max_lite_topic_size"}


def test_every_recorded_message_has_only_fields_of_the_definitions():
    recorded = [row for row in rows(NAME) if row.get("dir") in ("request", "response") and row["message"] is not None]
    lines = [line for line in conversation(NAME) if line.message is not None]
    assert len(lines) == len(recorded) > 200
    for line, row in zip(lines, recorded, strict=True):
        assert MessageToDict(line.message, preserving_proto_field_name=True) == row["message"]


@pytest.mark.parametrize("session", SETTINGS)
def test_lite_topics_and_priorities_are_served_as_recorded(grpc_broker, session):
    problems = []
    exchanges = list(grouped(conversation(NAME, session)))
    assert len(exchanges) >= {"cluster": 90, "attempts": 25, "acknowledged": 10, "quotas": 10}[session]

    async def main(served):
        for name, (queues, kind) in TOPICS.items():
            served.topic(name, queues, kind)
        for name, attributes in GROUPS.items():
            served.broker.groups.put(GroupConfig(name, attributes=attributes, retry_max_times=3))
        replay = Replay(served)
        held = []
        for line, recorded in exchanges:
            answers = asyncio.ensure_future(replay.answers(line))
            if line.note == "held receive":
                held.append((line, recorded, answers))
                continue
            problems.extend(problems_of(replay, line, recorded, await answers))
            while held:
                other, of_other, answers = held.pop()
                problems.extend(problems_of(replay, other, of_other, await answers))
        if session == "cluster":
            assert [each.WhichOneof("command") for each in replay.streams["e1"].all()] == [
                "settings",
                "notify_unsubscribe_lite_command",
            ]
            assert replay.streams["e1"].all()[1].notify_unsubscribe_lite_command.lite_topic == "chat-e"

    grpc_broker(main, settings=SETTINGS[session])
    assert not problems, "\n".join(map(str, problems))


def problems_of(replay, line, recorded, found):
    """Iterate over what differs from the recorded answers to a request."""
    where = line.method, line.note
    if recorded and recorded[-1].direction == "error":
        if found.status != recorded[-1].error.code:
            yield where, recorded[-1].error, found.status, found.text
        return
    expected = [as_dict(each.message) for each in recorded]
    actual = [as_dict(each) for each in found]
    learn(replay, expected, actual)
    if not expected:  # the recording ends with the request
        return
    if where in CODES:
        if actual[0]["status"]["code"] != CODES[where].name:
            yield where, CODES[where].name, actual
        return
    if where in BODIES:
        bodies = [each.message.body for each in found if each.HasField("message")]
        if bodies != BODIES[where]:
            yield where, bodies
        return
    without = RUNS | FIELDS.get(where, set())
    for status in [answers[0].get("status", {}) for answers in (expected, actual)]:
        if status.get("code") != "OK" and line.method in TEXTS:
            status.pop("message", None)
            actual[0].pop("entries", None)  # ours has one for each message
    if line.method == "Telemetry" and line.message.settings.subscription.group.name == "GPrio":
        without = without | OF_OTHERS
    if stripped(actual, without) != stripped(expected, without):
        yield where, stripped(expected, without), stripped(actual, without)


def learn(replay, expected, actual):
    """Remember our handles for the recorded ones, message by message."""
    by_id = {_id_of(each): each for each in actual}
    for each in expected:
        replay.learn(each, by_id.get(_id_of(each), {}))


def _id_of(answer):
    return answer.get("message", {}).get("system_properties", {}).get("message_id", "")
