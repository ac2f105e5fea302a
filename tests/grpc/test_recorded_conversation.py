"""The recorded conversation with RocketMQ's proxy, replayed with a simulated broker: codes, texts and fields are equal.

What differs is listed, each with its reason; docs/broker/grpc-differences.md says the same to users.
"""

import pytest

pytest.importorskip("gantrymq_grpc")

from grpc_recorded import TYPES, conversation
from grpc_replay import OWN, Replay, as_dict, grouped, stripped

from gantrymq_grpc.definitions import Code

CODES = {  # (method, note): our code, where RocketMQ's proxy answers another one
    ("ReceiveMessage", "before settings"): Code.MESSAGE_NOT_FOUND,  # served by the fields of the request
    ("SendMessage", "unknown topic"): Code.TOPIC_NOT_FOUND,  # not a conflict of types
    ("AckMessage", "junk handle"): Code.INVALID_RECEIPT_HANDLE,  # clients repeat INTERNAL_SERVER_ERROR without end
    ("AckMessage", "no entries"): Code.BAD_REQUEST,
    ("ReceiveMessage", "sql wrong"): Code.ILLEGAL_FILTER_EXPRESSION,
    ("ReceiveMessage", "unknown topic"): Code.TOPIC_NOT_FOUND,
    ("EndTransaction", "again"): Code.OK,  # a repeated decision is no error
}
TEXTS = {  # (method, note): why our text is another one
    ("QueryRoute", ""): "names the command that creates the topic",
    ("QueryRoute", "blank topic"): "the sentence that remoting clients get",
    ("Heartbeat", "no group"): "the sentence that remoting clients get",
    ("Telemetry", ""): "the sentence that remoting clients get",
    ("PullMessage", ""): "names the whole path",
    ("QueryOffset", ""): "names the whole path",
    ("GetOffset", ""): "names the whole path",
    ("UpdateOffset", ""): "names the whole path",
    ("SendMessage", "FIFO to NORMAL topic"): "names the command that creates a topic of the type",
    ("SendMessage", "NORMAL to FIFO topic"): "names the command that creates a topic of the type",
    ("RecallMessage", "other topic type"): "names the command that creates a topic of the type",
}
MESSAGES = {("SendMessage", "two messages")}  # an entry for each message, with the id that the client chose
FIELDS = {  # of messages: encoding and digest of a body that is handed out plain
    "gzip": {"body", "body_encoding", "body_digest"},
}


def test_the_recorded_conversation_is_answered_as_by_the_proxy(grpc_broker):
    problems = []

    async def main(served):
        for name, kind in TYPES.items():
            served.topic(name, 2, kind)
        replay = Replay(served)
        for line, recorded in grouped(conversation()):
            found = await replay.answers(line)
            where = line.method, line.note
            if recorded[-1].direction == "error":
                error = recorded[-1].error
                if found.status != error.code or (found.text != error.text and where not in TEXTS):
                    problems.append((where, error, (found.status, found.text)))
                continue
            expected = [as_dict(each.message) for each in recorded]
            actual = [as_dict(each) for each in found]
            for answers in (expected, actual):  # the queues are read in another order
                answers.sort(
                    key=lambda each: each.get("message", {}).get("system_properties", {}).get("message_id", "")
                )
            replay.learn(expected, actual)
            problems.extend((where, *each) for each in differences(where, expected, actual))

    settings = {"transactionTimeOut": 6000, "transactionCheckInterval": 3000, "recallMessageEnable": True}
    grpc_broker(main, settings=settings)
    assert not problems, "\n".join(map(str, problems))


def differences(where, expected, actual):
    if where in MESSAGES:  # ours has an entry for each
        assert [each["status"]["code"] for each in actual[0]["entries"]] == ["OK", "OK"]
        return
    junk_handle = where[0] == "RecallMessage" and expected[0]["status"]["code"] == "INTERNAL_SERVER_ERROR"
    if junk_handle and actual[0]["status"]["code"] == "BAD_REQUEST":
        return  # it stays invalid however often it is sent
    if where in CODES:
        wanted = CODES[where]
        if actual[0]["status"]["code"] != wanted.name:
            yield expected, actual
        return
    if len(expected) != len(actual):
        yield expected, actual
        return
    for one, other in zip(expected, actual, strict=True):
        gzip = "message" in one and one["message"]["system_properties"]["body_encoding"] == "GZIP"
        without = FIELDS["gzip"] if gzip else set()
        if where in TEXTS and "status" in one and one["status"]["code"] != "OK":
            without = {"message"}
        if stripped(one, OWN | without) != stripped(other, OWN | without):
            yield stripped(one, OWN | without), stripped(other, OWN | without)
