"""Half messages with full properties: the fields added by a check fit, or the check is sent without them."""

import logging

import pytest

pytest.importorskip("gantrymq_storage_memory")

from broker_desk import records
from desk import COMMIT, answer_to, bodies, end, half, join, run_with_plugin

from gantrymq.formats.record import read_record
from gantrymq.interfaces import PutResult, PutStatus
from gantrymq.model import properties as props
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq.model.queue import Queue

DAY_S = 24 * 3600
NO_EXPIRY = {"channelExpiredTimeout": 8 * DAY_S * 1000}


def in_queue(desk, topic):
    """Every record of queue 0 of *topic*."""
    return [read_record(desk.server.store._record(entry)) for entry in queue_of(desk, topic)]


def queue_of(desk, topic):
    return desk.server.store._queues.get(Queue(topic, 0), [])


async def full_half(desk, number, left, more=""):
    """Send a half message whose stored properties are *left* bytes shorter than the maximum of a record."""
    await half(desk, 1000 + number, more=f"P\x01x\x02{more}")
    short = len(in_queue(desk, HALF_TOPIC)[-1].properties_bytes)
    sent = await half(desk, 2000 + number, more=f"P\x01{'x' * (props.MAX_BYTES - left - short + 1)}\x02{more}")
    assert len(in_queue(desk, HALF_TOPIC)[-1].properties_bytes) == props.MAX_BYTES - left
    return sent


def times_asked(producer, fields):
    return sum(asked.ext["msgId"] == fields["msgId"] for asked in producer.asked)


@pytest.fixture
def as_before(monkeypatch):
    """Accept properties that just fit a record, as a Java broker does."""
    monkeypatch.setattr(props, "MAX_SENT_BYTES", props.MAX_BYTES)


def test_a_half_message_with_as_much_as_is_accepted_is_asked_about_given_up_and_committed():
    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await full_half(desk, 1, props.LATER_BYTES)
        with pytest.raises(AssertionError, match=r"the properties have 30868 bytes .* the longest allowed is 30867 "):
            await full_half(desk, 2, props.LATER_BYTES - 1)
        await desk.clock.sleep(16 * 30 + 1)
        assert times_asked(producer, fields) == 15
        given_up = [props.decode(each.properties_bytes) for each in in_queue(desk, CHECK_MAX_TIME_TOPIC)]
        assert [own["TRANSACTION_CHECK_TIMES"] for own in given_up] == ["15"] * 3
        assert (await end(desk, fields, COMMIT)).code == 0
        assert await bodies(desk) == [b"body2001"]

    run_with_plugin(main, **NO_EXPIRY)


@pytest.mark.parametrize("more", ["", "WAIT\x01true\x02"], ids=["", "with WAIT"])
def test_one_without_room_for_a_check_is_asked_about_and_committed(as_before, caplog, more):
    caplog.set_level(logging.WARNING)

    async def main(desk, service):
        producer = await join(desk.peer())
        full = [await full_half(desk, left, left, more) for left in range(45)]
        await desk.clock.sleep(3 * 30 + 1)
        for left, fields in enumerate(full):
            assert times_asked(producer, fields) == 3, left
            (*_, last) = (asked for asked in producer.asked if asked.ext["msgId"] == fields["msgId"])
            assert (await end(producer, answer_to(last), COMMIT)).code == 0
        assert await bodies(desk) == [b"body%d" % (2000 + left) for left in range(45)]
        told = [each for each in caplog.messages if "without room for the count of its checks" in each]
        assert len(told) == len("TRANSACTION_CHECK_TIMES\x011\x02")
        assert not [each for each in caplog.records if each.levelno > logging.WARNING]

    run_with_plugin(main, **NO_EXPIRY)


def test_one_without_room_for_a_check_is_given_up_after_fifteen(as_before):
    async def main(desk, service):
        producer = await join(desk.peer())
        fields = await full_half(desk, 1, 3)
        await desk.clock.sleep(15 * 30 + 1)
        assert times_asked(producer, fields) == 15
        await desk.clock.sleep(30)
        assert service.undecided().count == 0
        assert len(in_queue(desk, CHECK_MAX_TIME_TOPIC)) == 2
        assert (await end(desk, fields, COMMIT)).code == 0
        assert await bodies(desk) == [b"body2001"]

    run_with_plugin(main, **NO_EXPIRY)


@pytest.mark.slow
def test_one_that_is_too_old_for_a_check_is_kept_where_it_can_be_committed(as_before):
    async def main(desk, service):
        full = [await full_half(desk, left, left) for left in range(0, 45, 4)]
        await desk.clock.sleep(3 * DAY_S + 7 * 3600)
        assert service.undecided().count == 0
        assert len(in_queue(desk, CHECK_MAX_TIME_TOPIC)) == 2 * len(full)
        assert [(await end(desk, fields, COMMIT)).code for fields in full] == [0] * len(full)
        assert len(await bodies(desk)) == len(full)

    run_with_plugin(main, limit_s=4 * DAY_S, transactionCheckInterval=6 * 3600_000)


def test_no_op_message_is_stored_for_a_message_that_is_refused(caplog):
    async def main(desk, service):
        await desk.send("T", b"first")
        fields, other = await half(desk, 1), await half(desk, 2, topic="Other")
        store = desk.server.store
        put = store.put

        def refuse(messages):
            if any(message.topic == "T" for message in messages):
                return [PutResult(PutStatus.MESSAGE_ILLEGAL, -1, -1, 0, 0, "too long")] * len(messages)
            return put(messages)

        store.put = refuse
        answers = (
            desk.later(37, {**fields, "commitOrRollback": "8"}),
            desk.later(37, {**other, "commitOrRollback": "8"}),
        )
        refused, committed = [await answer for answer in answers]
        assert (refused.code, refused.remark, committed.code) == (13, "too long", 0)
        assert [bytes(op.body) for op in in_queue(desk, OP_TOPIC)] == [b"1,"]
        assert service.undecided().count == 1
        assert "stays undecided, cannot be stored: too long" in caplog.text
        store.put = put
        assert (await end(desk, fields, COMMIT)).code == 0
        assert [bytes(each.body) for each in records(await desk.pull("T"))] == [b"first", b"body1"]

    run_with_plugin(main)
