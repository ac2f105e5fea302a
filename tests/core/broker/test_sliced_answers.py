"""Answers that grow with tables: made in slices, with the bytes of one piece, while the tables change."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from broker_desk import body_of
from long_responses import WrittenTogether

from gantrymq.broker.wire import runtime
from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting import responses
from gantrymq.remoting.responses import MAX_AT_ONCE, MAX_ITEMS
from gantrymq.world.clock import TimeSlices

TOPICS, QUEUES, GROUPS, MEMBERS = 300, 3, 150, 70
OFFSETS = TOPICS * QUEUES + TOPICS + QUEUES * GROUPS

FIELDS = {"topic": "T000", "group": "reader", "consumerGroup": "reader"}
REQUESTS = {  # code to fields, and the smallest number of items
    21: ({}, TOPICS),
    43: ({}, TOPICS + GROUPS),
    201: ({}, GROUPS),
}


async def fill(desk, topics=TOPICS, queues=QUEUES, number_of_groups=GROUPS):
    """Each topic has offsets of one group and of "reader", the first topic offsets of all groups."""
    tables = desk.tables
    groups = [f"G{number:03}" for number in range(number_of_groups)]
    for name in ("reader", "copy", *groups):
        tables.groups.put(GroupConfig(name))
    for number in range(topics):
        topic = f"T{number:03}"
        tables.topics.put(TopicConfig(topic, queues, queues))
        for queue_id in range(queues):
            tables.offsets.commit(groups[number % len(groups)], Queue(topic, queue_id), 0)
            tables.offsets.commit("reader", Queue(topic, queue_id), 0)
    for group in groups:
        tables.offsets.commit(group, Queue("T000", 0), 0)
    tables.groups.set_readable("G001", "T001", readable=False)
    consumer = {
        "groupName": "online",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "BROADCASTING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [{"topic": "T000", "subString": "*", "subVersion": 1, "expressionType": "TAG"}],
    }
    for number in range(MEMBERS):
        body = {"clientID": f"c{number}", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "online"}]}
        assert (await desk.peer().ask(34, None, dumps(body))).code == 0


class Pauses:
    """Pauses between slices: their number, the longest slice in items, and functions to call in one of them."""

    def __init__(self, desk, monkeypatch):
        self.count = self.longest = 0
        self.at = {}
        items, sleep, item_done = 0, desk.clock.sleep, TimeSlices.item_done

        async def slept(seconds):
            nonlocal items
            if not seconds:
                self.count, self.longest, items = self.count + 1, max(self.longest, items), 0
                happening = self.at.pop(self.count, int)()
                if inspect.isawaitable(happening):
                    await happening
            await sleep(seconds)

        async def counted(slices):
            nonlocal items
            items += 1
            await item_done(slices)

        monkeypatch.setattr(desk.clock, "sleep", slept)
        monkeypatch.setattr(TimeSlices, "item_done", counted)


async def answer_made_in_slices(desk, monkeypatch, code, fields, items, *, has_body=True):
    await fill(desk)
    pauses = Pauses(desk, monkeypatch)
    answer = await desk.ask(code, fields)
    assert answer.code == 0
    assert pauses.count >= items // MAX_ITEMS
    assert pauses.longest < 2 * MAX_ITEMS  # the last slice of a preparation, and the first of the answer
    if has_body:
        assert answer.payload == dumps(loads(answer.payload), sort=True)
        assert len(answer.payload) > items * 5


@pytest.mark.parametrize("code", REQUESTS)
def test_an_answer_has_the_bytes_of_one_piece_and_is_made_in_slices(broker, monkeypatch, code):
    broker(lambda desk: answer_made_in_slices(desk, monkeypatch, code, *REQUESTS[code]))


def test_what_the_answers_contain(broker):
    async def main(desk):
        await fill(desk)
        tables = desk.tables
        topics = body_of(await desk.ask(21))["topicConfigTable"]
        assert topics == {name: topic.to_json() for name, topic in tables.topics.view.items()}
        groups = body_of(await desk.ask(201))
        assert groups["subscriptionGroupTable"] == {n: group.to_json() for n, group in tables.groups.view.items()}
        assert groups["forbiddenTable"] == tables.groups.forbidden != {}
        offsets = body_of(await desk.ask(43))
        assert offsets["offsetTable"] == tables.offsets.table
        assert {name: sorted(of) for name, of in offsets["groupTopicMap"].items()} == {
            group: sorted(tables.offsets.topics_of(group)) for group in ("reader", *(f"G{n:03}" for n in range(GROUPS)))
        }

    broker(main)


def test_offsets_of_light_groups_are_in_their_own_table(broker, monkeypatch):
    monkeypatch.setattr(runtime, "serves_light_queues", lambda settings: True)

    async def main(desk):
        for number in range(100):
            desk.tables.offsets.commit(f"%LMQ%{number}", Queue(f"%LMQ%{number}", 0), number)
        desk.tables.offsets.commit("CG", Queue("T", 1), 7)
        answer = await desk.ask(43)
        body = body_of(answer)
        assert body["lmqOffsetTable"] == {f"%LMQ%{n}@%LMQ%{n}": n for n in range(100)}
        assert (body["offsetTable"], body["groupTopicMap"]) == ({"T@CG": {1: 7}}, {"CG": ["T"]})
        assert list(body) == ["dataVersion", "groupTopicMap", "lmqOffsetTable", "offsetTable"]
        assert answer.payload == dumps(body, sort=True)

    broker(main)


async def deleted_names_are_left_out(desk, monkeypatch, code, fields):
    await fill(desk)
    pauses, tables = Pauses(desk, monkeypatch), desk.tables

    def change():
        tables.topics.delete("T299")
        tables.offsets.forget_topic("T299")
        tables.topics.put(TopicConfig("T9999", QUEUES, QUEUES))
        tables.groups.delete("G149")
        tables.offsets.forget_group("G149")
        tables.groups.put(GroupConfig("G999"))

    pauses.at[1] = change
    answer = await desk.ask(code, fields)
    assert pauses.count > 1
    assert answer.payload == dumps(loads(answer.payload), sort=True)
    table = answer.payload.partition(b'"offsetTable"')[2] if code == 43 else answer.payload
    for name in (b"T299", b"T9999", b"G149", b"G999"):
        assert name not in table
    assert b"T298" in answer.payload or code == 201


@pytest.mark.parametrize("code", [21, 201, 43])
def test_names_deleted_meanwhile_are_left_out_and_new_ones_too(broker, monkeypatch, code):
    broker(lambda desk: deleted_names_are_left_out(desk, monkeypatch, code, REQUESTS[code][0]))


def test_a_few_answers_are_made_at_once_in_the_order_of_their_requests(broker, monkeypatch):
    async def main(desk):
        await fill(desk)
        written = WrittenTogether(monkeypatch)
        answers = await asyncio.gather(*(desk.ask(21) for _ in range(3 * MAX_AT_ONCE)))
        assert written.most == MAX_AT_ONCE
        assert len({answer.payload for answer in answers}) == 1

    broker(main)


def test_an_answer_that_does_not_fit_into_a_frame_is_refused(broker, monkeypatch):
    async def main(desk):
        await fill(desk)
        monkeypatch.setattr(responses, "MAX_BODY_BYTES", 10_000)
        answer = await desk.ask(43)
        assert answer.code == 1
        assert answer.remark == (
            "GET_ALL_CONSUMER_OFFSET: the response does not fit into a frame (the JSON is over the limit of 10000 "
            "bytes); ask for a part"
        )
        assert (await desk.ask(21, {"topicSeq": "0", "maxTopicNum": "10"})).code == 0

    broker(main)


def test_queues_have_the_names_of_their_topic_and_broker(broker):
    async def main(desk):
        desk.tables.topics.put(TopicConfig("T000", 2, 2))
        table = body_of(await desk.ask(202, FIELDS))["offsetTable"]
        assert list(table) == [ObjectKey({"brokerName": 'b"r', "queueId": n, "topic": "T000"}) for n in range(2)]

    broker(main, brokerName='b"r')
