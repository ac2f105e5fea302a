"""Sends like one that passed the checks: stored and answered like it, checked again when things change."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest
from broker_desk import records

from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.broker.wire import send_templates
from gantrymq.broker.wire.send_templates import SendTemplateCache
from gantrymq.errors import MessageIllegal
from gantrymq.interfaces import MovedMessage
from gantrymq.model import properties as props
from gantrymq.remoting.command import Command
from gantrymq.remoting.sends import SendCommand

PROPERTIES = "TAGS\x01A\x02UNIQ_KEY\x01{}\x02WAIT\x01true\x02"


async def send(desk, number, topic="T", **fields):
    return await desk.send(topic, b"body %d" % number, properties=PROPERTIES.format(f"ID{number:030}"), **fields)


@pytest.fixture
def checks(monkeypatch):
    """How many sends went through all checks."""
    made = []
    prepare = SendPreparation.prepare

    def counted(self, request):
        made.append(request)
        return prepare(self, request)

    monkeypatch.setattr(SendPreparation, "prepare", counted)
    return made


def test_sends_alike_are_checked_twice_and_stored_the_same(broker, checks):
    async def main(desk):
        answers = [await send(desk, number, born_timestamp=1000 + number) for number in range(8)]
        assert len(checks) == 3  # while the topic is not on disk, once more, and once to cache the outcome
        found = records(await desk.pull("T"))
        for number, (answer, record) in enumerate(zip(answers, found, strict=True)):
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(number))
            assert answer.ext["transactionId"] == record.properties["UNIQ_KEY"] == f"ID{number:030}"
            assert (bytes(record.body), record.born_timestamp) == (b"body %d" % number, 1000 + number)
            assert list(record.properties) == list(found[0].properties)
            assert (record.flag, record.sys_flag, record.born_host) == (0, 0, found[0].born_host)
        assert [set(answer.ext) for answer in answers] == [set(answers[0].ext)] * 8

    broker(main)


def test_each_queue_is_served_and_one_outside_is_refused(broker, checks):
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


def test_a_message_without_a_body_is_refused_whatever_passed_before(broker):
    async def main(desk):
        for number in range(5):
            await send(desk, number)
        refused = await desk.send("T", b"", properties=PROPERTIES.format("X" * 32))
        assert refused.code == 13

    broker(main)


def test_messages_that_are_refused_or_ask_for_a_time_are_checked_each_time(broker, checks):
    async def main(desk):
        for asked in ("DELAY\x013", "TIMER_DELIVER_MS\x013"):
            for number in range(6):
                own = f"{asked}\x02UNIQ_KEY\x01ID{number:030}\x02"
                assert (await desk.send("T", b"b", properties=own)).code == 13
        assert len(checks) == 12

    broker(main)


class Delays:
    """Moves delayed messages to the queue of their level in topic Waiting."""

    order, properties = 1, frozenset({"DELAY"})

    def __init__(self):
        self.odd = None  # in place of a body's message

    def __call__(self, message):
        if self.odd is not None and message.body == b"odd":
            return self.odd(message)
        message.properties += b"REAL_QID\x01%d\x02" % message.queue_id
        message.topic, message.queue_id = "Waiting", int(props.decode(message.properties)["DELAY"]) - 1
        return message


DELAYED = "DELAY\x013\x02" + PROPERTIES


def send_delayed(desk, number, body=None, queue_id=0):
    own = DELAYED.format(f"ID{number:030}")
    return desk.send("T", body or b"body %d" % number, properties=own, queue_id=queue_id)


def delayed(broker, plugins, main):
    delays = Delays()

    async def run(desk):
        await desk.send("Waiting", b"-")
        for number in range(900, 904):
            assert (await send_delayed(desk, number)).code == 0
        await main(desk, delays)

    broker(run, plugins=attrs.evolve(plugins, interceptors=(delays,)))


async def waiting(desk):
    return records(await desk.pull("Waiting", queueId="2"))[4:]


def test_what_is_delayed_alike_is_moved_message_by_message_and_stored_together(broker, plugins, taken, checks):
    async def main(desk, delays):
        before = len(checks)
        taken.clear()
        answers = await asyncio.gather(*(send_delayed(desk, number, queue_id=number % 3) for number in range(9)))
        assert (sum(taken), max(taken) > 1, len(checks)) == (9, True, before)  # in a few reads
        for number, (answer, record) in enumerate(zip(answers, await waiting(desk), strict=True)):
            assert (answer.code, answer.ext["queueId"]) == (0, str(number % 3))
            assert (answer.ext["queueOffset"], bytes(record.body)) == (str(record.queue_offset), b"body %d" % number)
            assert answer.ext["msgId"].endswith(f"{record.log_offset:016X}")
            assert answer.ext["transactionId"] == record.properties["UNIQ_KEY"] == f"ID{number:030}"
            assert (record.properties["DELAY"], record.properties["REAL_QID"]) == ("3", str(number % 3))
        assert records(await desk.pull("T")) == []

    delayed(broker, plugins, main)


def refuses(message):
    raise MessageIllegal("this one may not wait")


def fails(message):
    raise KeyError("a bug")


def says_more(message):
    moved = MovedMessage("Waiting", 2, message.body, message.properties, store_host=message.store_host)
    moved.answer_fields = {"recallHandle": "R"}
    return moved


@pytest.mark.parametrize(
    ("odd", "code", "seen"),
    [(refuses, 13, "may not wait"), (fails, 1, "because of an internal error"), (says_more, 0, "recallHandle")],
)
def test_a_delayed_one_that_is_a_case_of_its_own_parts_those_around_it(broker, plugins, taken, odd, code, seen):
    async def main(desk, delays):
        delays.odd = odd
        taken.clear()
        sends = [send_delayed(desk, number, b"odd" if number == 2 else None) for number in range(5)]
        answers = await asyncio.gather(*sends)
        assert (sum(taken), 0 in taken) == (4, True)
        assert [answer.code for answer in answers] == [0, 0, code, 0, 0]
        assert seen in f"{answers[2].remark} {answers[2].ext}"
        stored = [b"odd" if number == 2 else b"body %d" % number for number in range(5) if number != 2 or code == 0]
        assert [bytes(record.body) for record in await waiting(desk)] == stored

    delayed(broker, plugins, main)


async def learn(desk, topic="T", first=900):
    for number in range(first, first + 4):
        await send(desk, number, topic)


async def together(desk, sends):
    """Requests that the broker reads at once."""
    answers = await asyncio.gather(*sends)
    return answers, records(await desk.pull("T"))[4:]


@pytest.fixture
def taken(monkeypatch):
    """How many sends were taken together, time by time."""
    counts = []
    original = SendTemplateCache.together

    def counted(self, *given):
        found = original(self, *given)
        counts.append(len(found))
        return found

    monkeypatch.setattr(SendTemplateCache, "together", counted)
    return counts


def test_sends_of_one_read_are_stored_together_and_answered_each(broker, taken):
    async def main(desk):
        await learn(desk)
        answers, found = await together(desk, [send(desk, number) for number in range(20)])
        assert taken[-1] == 20
        assert [bytes(record.body) for record in found] == [b"body %d" % number for number in range(20)]
        for number, (answer, record) in enumerate(zip(answers, found, strict=True)):
            assert answer.ext["transactionId"] == record.properties["UNIQ_KEY"] == f"ID{number:030}"
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(record.queue_offset))
            assert answer.ext["msgId"].endswith(f"{record.log_offset:016X}")

    broker(main)


def test_one_that_has_to_be_looked_at_parts_those_around_it(broker, taken):
    async def main(desk):
        await learn(desk)
        sends = [send(desk, number, queue_id=9 if number == 3 else 0) for number in range(8)]
        answers, found = await together(desk, sends)
        assert taken[-3:] == [3, 0, 4]
        assert [answer.code for answer in answers] == [0, 0, 0, 29, 0, 0, 0, 0]
        assert [bytes(record.body) for record in found] == [b"body %d" % number for number in (0, 1, 2, 4, 5, 6, 7)]

    broker(main)


def test_one_that_the_store_refuses_is_told_so_and_the_others_are_stored(broker, taken):
    async def main(desk):
        await learn(desk)
        large = desk.send("T", b"x" * 2000, properties=PROPERTIES.format("LARGE"))
        answers, found = await together(desk, [send(desk, 0), large, send(desk, 2)])
        assert taken[-1] == 3
        assert [answer.code for answer in answers] == [0, 13, 0]
        assert "maxMessageSize is 1024" in answers[1].remark
        assert [bytes(record.body) for record in found] == [b"body 0", b"body 2"]

    broker(main, maxMessageSize=1024)


def test_those_whose_producers_do_not_wait_are_submitted_apart(broker, taken):
    async def main(desk):
        await learn(desk)
        own = PROPERTIES.replace("true", "false")
        for number in range(4):
            await desk.send("T", b"-", properties=own.format(f"N{number}"), queue_id=1)
        sends = [send(desk, 0), desk.send("T", b"body 1", properties=own.format("N9")), send(desk, 2)]
        answers, found = await together(desk, sends)
        assert taken[-3:] == [1, 1, 1]
        assert [answer.code for answer in answers] == [0, 0, 0]
        assert [bytes(record.body) for record in found] == [b"body 0", b"body 1", b"body 2"]

    broker(main)


def test_topics_in_turn_are_taken_together(broker, taken):
    async def main(desk):
        await learn(desk)
        await learn(desk, "Other", 800)
        answers, found = await together(desk, [send(desk, n, "Other" if n % 2 else "T") for n in range(10)])
        assert taken[-1] == 10
        assert {answer.code for answer in answers} == {0}
        assert [bytes(record.body) for record in found] == [b"body %d" % number for number in range(0, 10, 2)]

    broker(main)


def test_an_interceptor_sees_each(broker, plugins, taken):
    class Mark:
        order = 1

        def __call__(self, message):
            message.body = message.body.replace(b"body", b"seen")
            return message

    async def main(desk):
        await learn(desk)
        _, found = await together(desk, [send(desk, number) for number in range(3)])
        assert taken[-3:] == [1, 1, 1]
        assert [bytes(record.body) for record in found] == [b"seen 0", b"seen 1", b"seen 2"]

    broker(main, plugins=attrs.evolve(plugins, interceptors=(Mark(),)))


def test_an_interceptor_of_a_property_leaves_plain_sends_together(broker, plugins, taken, checks):
    class Mark:
        order, properties = 1, frozenset({"colour"})

        def __call__(self, message):
            message.body = b"seen"
            return message

    async def main(desk):
        await learn(desk)
        before = len(checks)
        _, found = await together(desk, [send(desk, number) for number in range(6)])
        assert (taken[-1], len(checks)) == (6, before)
        assert [bytes(record.body) for record in found] == [b"body %d" % number for number in range(6)]
        for number in range(5):
            own = f"colour\x01red\x02UNIQ_KEY\x01ID{number:030}\x02"
            assert (await desk.send("Other", b"b", properties=own)).code == 0
        assert {bytes(record.body) for record in records(await desk.pull("Other"))} == {b"seen"}

    broker(main, plugins=attrs.evolve(plugins, interceptors=(Mark(),)))


def test_what_comes_once_is_not_remembered(broker, checks):
    async def main(desk):
        for number in range(6):
            own = f"KEYS\x01k{number}\x02UNIQ_KEY\x01ID{number:030}\x02"
            assert (await desk.send("T", b"b", properties=own)).code == 0
        assert len(checks) == 6
        assert (await desk.send("T", b"b", properties=own)).code == 0
        assert (await desk.send("T", b"b", properties=own)).code == 0
        assert len(checks) == 7

    broker(main)


@pytest.mark.parametrize("bound", ["MOST_REMEMBERED", "MOST_REMEMBERED_BYTES", "MOST_MET"])
def test_what_is_remembered_is_bounded(monkeypatch, bound):
    monkeypatch.setattr(send_templates, bound, {"MOST_REMEMBERED_BYTES": 350}.get(bound, 4))
    alike = SendTemplateCache(None, None, None, None, b"")
    for number in range(400):
        kind = number // 2 % 10  # each twice running
        alike.remember(SendCommand(Command(310), b"x" * 100, kind, 0, 0, b"ID"), None, SimpleNamespace(principal=None))
        assert len(alike._met) <= (4 if bound == "MOST_MET" else 10)
        assert len(alike._templates) <= (10 if bound == "MOST_MET" else 4)
        assert alike._templates.keys() <= set(range(10))
        assert alike._bytes == 100 * len(alike._templates)
    assert alike._templates


def test_sends_to_deleted_topics_are_forgotten_when_there_are_many(broker, monkeypatch):
    monkeypatch.setattr(send_templates, "LEAST_TIDIED", 4)
    kept = []
    tidy = SendTemplateCache._tidy

    def tidied(self):
        before = len(self._templates)
        tidy(self)
        kept.append((before, len(self._templates)))

    monkeypatch.setattr(SendTemplateCache, "_tidy", tidied)

    async def main(desk):
        for number in range(30):
            for each in range(3):
                own = f"UNIQ_KEY\x01ID{each:030}\x02"
                assert (await desk.send(f"T{number}", properties=own)).code == 0
            await desk.ask(215, {"topic": f"T{number}"})

    broker(main)
    assert len(kept) > 4
    assert all(before <= 6 and after <= 1 for before, after in kept)
