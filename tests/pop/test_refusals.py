"""Refusals of pops and related requests: a code, and a sentence with the remedy."""

import pytest

from gantrymq.loose_json import dumps

ACK = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "extraInfo": "0 1 2 0 0 broker-a 0", "offset": "0"}
MODE = {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 0}


@pytest.mark.parametrize(
    ("code", "ext", "body", "answer", "mends"),
    [
        (200051, {**ACK, "topic": "Nope"}, None, 17, "gantrymq topic list"),
        (200051, {**ACK, "queueId": "9"}, None, 13, "name the queue that the message was popped from"),
        (200051, {**ACK, "offset": "5"}, None, 208, "name the message's own queueOffset"),
        (200151, None, {"brokerName": "broker-a", "acks": [{"c": "CG"}]}, 13, "as RocketMQ's client does (BatchAck)"),
        (200151, None, {"brokerName": "broker-a"}, 208, "name one or more"),
        (400, None, {"topic": "T", "consumerGroup": "CG", "clientId": "c"}, 1, "gantrymq group clients CG"),
        (400, None, [], 1, "a JSON object was expected"),
        (401, None, {**MODE, "topic": "%RETRY%CG"}, 16, "name a topic of producers"),
        (401, None, {**MODE, "topic": "Nope"}, 17, "gantrymq topic create -t Nope"),
        (401, None, {**MODE, "mode": "PUSH"}, 29, "mqadmin setConsumeMode -m"),
    ],
)
def test_a_refusal_says_what_mends_the_matter(popped, code, ext, body, answer, mends):
    async def main(client):
        await client.send(b"1")
        await client.pop(most=1)
        refused = await client.ask(code, ext, None if body is None else dumps(body))
        assert (refused.code, mends in refused.remark) == (answer, True), refused.remark

    popped(main)


@pytest.mark.parametrize(
    ("fields", "answer", "mends"),
    [
        ({"most": 33}, 29, "pop more often"),
        ({"queue": 9}, 29, "gantrymq topic create -t T -r 10 makes more"),
        ({"invisible": 259_200_001}, 29, "ask for less"),
        ({"topic": "Nope"}, 17, "gantrymq topic create -t Nope"),
        ({"poll": 1000, "bornTime": "1"}, 210, "compare the clocks"),
    ],
)
def test_a_pop_that_is_refused_says_what_mends_the_matter(popped, fields, answer, mends):
    async def main(client):
        await client.send(b"1")
        refused = await client.pop(**fields)
        assert (refused.code, mends in refused.remark) == (answer, True), refused.remark

    popped(main)
