"""Sends whose shape passed the checks before: stored and answered like the first, checked again when things change."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import records

from gantrymq.broker.send import Sender

PROPERTIES = "TAGS\x01A\x02UNIQ_KEY\x01{}\x02WAIT\x01true\x02"


async def send(desk, number, topic="T", **fields):
    return await desk.send(topic, b"body %d" % number, properties=PROPERTIES.format(f"ID{number:030}"), **fields)


@pytest.fixture
def checks(monkeypatch):
    """How many sends went through all checks."""
    made = []
    prepare = Sender.prepare

    def counted(self, request):
        made.append(request)
        return prepare(self, request)

    monkeypatch.setattr(Sender, "prepare", counted)
    return made


def test_sends_alike_are_checked_until_their_shape_is_known_and_stored_the_same(broker, checks):
    async def main(desk):
        answers = [await send(desk, number, born_timestamp=1000 + number) for number in range(8)]
        assert len(checks) == 3  # once, a second time to learn the shape, a third to remember the outcome
        found = records(await desk.pull("T"))
        for number, (answer, record) in enumerate(zip(answers, found, strict=True)):
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(number))
            assert answer.ext["transactionId"] == record.properties["UNIQ_KEY"] == f"ID{number:030}"
            assert (bytes(record.body), record.born_timestamp) == (b"body %d" % number, 1000 + number)
            assert list(record.properties) == list(found[0].properties)
            assert (record.flag, record.sys_flag, record.born_host) == (0, 0, found[0].born_host)
        assert [set(answer.ext) for answer in answers] == [set(answers[0].ext)] * 8

    broker(main)


def test_each_queue_of_a_known_shape_is_served_and_one_outside_is_refused(broker, checks):
    async def main(desk):
        for number in range(4):
            await send(desk, number)
        before = len(checks)
        for queue_id in range(1, 4):
            answer = await send(desk, queue_id, queue_id=queue_id)
            assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, str(queue_id), "0")
        assert len(checks) == before
        refused = await send(desk, 9, queue_id=4)
        assert refused.code == 29
        assert "queueId 4 is outside topic T" in refused.remark

    broker(main)


def test_a_topic_that_changed_is_looked_at_again(broker, checks):
    async def main(desk):
        for number in range(5):
            await send(desk, number, queue_id=3)
        topics = desk.tables.topics
        topics.put(attrs.evolve(topics.get("T"), read_queues=2, write_queues=2))
        refused = await send(desk, 5, queue_id=3)
        assert refused.code == 29
        topics.put(attrs.evolve(topics.get("T"), read_queues=4, write_queues=4, filter_type="MULTI_TAG"))
        assert (await send(desk, 6, queue_id=0)).code == 0
        assert (await send(desk, 7, queue_id=0)).code == 0
        assert [record.sys_flag for record in records(await desk.pull("T"))] == [2, 2]

    broker(main)


def test_settings_that_changed_are_looked_at_again(broker, checks):
    async def main(desk):
        for number in range(5):
            await send(desk, number)
        desk.server.settings.set("traceOn", False, "test")
        answer = await send(desk, 5)
        assert answer.ext["TRACE_ON"] == "false"
        assert records(await desk.pull("T"))[5].properties["TRACE_ON"] == "false"

    broker(main)


def test_a_message_without_a_body_is_refused_whatever_its_shape(broker):
    async def main(desk):
        for number in range(5):
            await send(desk, number)
        refused = await desk.send("T", b"", properties=PROPERTIES.format("X" * 32))
        assert refused.code == 13

    broker(main)


def test_messages_that_ask_for_more_are_checked_each_time(broker, checks):
    async def main(desk):
        for number in range(6):
            own = f"DELAY\x010\x02UNIQ_KEY\x01ID{number:030}\x02"
            assert (await desk.send("T", b"b", properties=own)).code == 0
        for number in range(6):
            own = f"DELAY\x013\x02UNIQ_KEY\x01ID{number:030}\x02"
            assert (await desk.send("T", b"b", properties=own)).code == 13
        assert len(checks) == 12

    broker(main)
