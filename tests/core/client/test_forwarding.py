"""Forwarding received messages: the application's fields are copied, RocketMQ's properties are not."""

import attrs
import pytest

from gantrymq.client import Client
from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.message import RESERVED, Message
from gantrymq.errors import ClientError
from gantrymq.model import properties as names
from gantrymq.remoting.codes import RequestCode

OWN = {"colour": "red", "__SHARDINGKEY": "order-7"}
WRITTEN = {
    "WAIT": "false",
    "UNIQ_KEY": "7F0000012AB54E0E2F2A688EB5510000",
    "DELAY": "3",
    "RECONSUME_TIME": "2",
    "TRAN_MSG": "true",
    "CLUSTER": "C",
    "KEYS": "k1 k2",
    "TAGS": "t",
}


@pytest.fixture
def received(record):
    (message,) = decode_messages(record(properties=names.encode({**OWN, **WRITTEN}), flag=7, body=b"body"), "b")
    return message


def test_properties_of_the_application_and_of_rocketmq_are_told_apart(received):
    assert (received.user_properties, received.system_properties) == (OWN, WRITTEN)


def test_a_message_sent_on_is_a_new_one(simulate, cluster, received):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            result = await producer.send(Message.from_received(received))
            (sent,) = c.brokers["a"].of(RequestCode.SEND_MESSAGE_V2)
            found = names.decode_text(sent.ext["i"])
            assert found.pop("UNIQ_KEY") == result.message_id != WRITTEN["UNIQ_KEY"]
            assert found == {**OWN, "KEYS": "k1 k2", "TAGS": "t", "WAIT": "true"}
            assert (sent.payload, sent.ext["b"], sent.ext["h"]) == (b"body", "T", "7")
            assert received.properties == {**OWN, **WRITTEN}

    simulate(work)


def test_what_java_received_is_sent_on(golden):
    for message in decode_messages(golden("pull found").payload, "broker-a"):
        again = Message.from_received(message, "Elsewhere")
        assert (again.topic, again.body, again.tags, again.keys) == (
            "Elsewhere",
            message.body,
            message.tags,
            message.keys,
        )
        assert not RESERVED & again.properties.keys()


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
def test_retries_and_dead_letters_go_to_their_first_topic(received, topic):
    moved = attrs.evolve(received, topic=topic, properties={**received.properties, "RETRY_TOPIC": "First"})
    assert Message.from_received(moved).topic == "First"
    assert Message.from_received(moved, "Second").topic == "Second"
    assert Message.from_received(attrs.evolve(moved, topic="T")).topic == "T"


def test_a_message_that_was_not_read_whole_is_not_sent_on(received):
    with pytest.raises(ClientError, match="cannot be forwarded .* no zlib stream"):
        Message.from_received(attrs.evolve(received, body_problem="no zlib stream"))
