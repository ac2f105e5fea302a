"""Sends: each check in RocketMQ's order with its code, and the stored messages."""

from __future__ import annotations

import pytest
from broker_desk import ADDRESS, START_MS, records, send_header

from gantrymq.formats.batch_body import encode_batch
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.command import request


def text(**own):
    return "".join(f"{name}\x01{value}\x02" for name, value in own.items())


def refusal_of(broker, topic="T", body=b"body", before=None, settings=None, **fields):
    """Code and text of the answer to one send."""

    async def main(desk):
        if before is not None:
            await before(desk)
        answer = await desk.send(topic, body, **fields)
        assert answer.ext["MSG_REGION"] == "DefaultRegion"  # on refusals too
        assert answer.ext["TRACE_ON"] == "true"
        return answer.code, answer.remark

    return broker(main, **(settings or {}))


@pytest.mark.parametrize("code", [10, 310])
def test_a_stored_message_is_answered_with_its_places(broker, code):
    async def main(desk):
        for offset in range(2):
            answer = await desk.send("T", code=code, queue_id=3)
            assert answer.code == 0
            assert answer.remark is None
            assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("3", str(offset))
            assert len(answer.ext["msgId"]) == 32
            assert len(answer.ext["transactionId"]) == 32
            assert {"MSG_REGION", "TRACE_ON"} <= set(answer.ext)

    broker(main)


def test_a_stored_message_is_pulled_as_it_was_sent(broker):
    async def main(desk):
        sent = text(KEYS="k1 k2", TAGS="Ä", own="1")
        answer = await desk.send("T", b"\0\xff", flag=7, sys_flag=1, properties=sent, born_timestamp=5)
        (record,) = records(await desk.pull("T"))
        assert (bytes(record.body), record.flag, record.sys_flag, record.born_timestamp) == (b"\0\xff", 7, 1, 5)
        assert START_MS <= record.store_timestamp < START_MS + 1000
        assert record.properties == {
            "KEYS": "k1 k2",
            "TAGS": "Ä",
            "own": "1",
            "UNIQ_KEY": answer.ext["transactionId"],
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }

    broker(main)


def test_properties_stand_in_the_order_of_a_java_map_and_pop_ck_goes(broker):
    async def main(desk):
        await desk.send("T", properties=text(POP_CK="x", UNIQ_KEY="U", WAIT="true", KEYS="k", TAGS="t"))
        (record,) = records(await desk.pull("T"))
        names = [entry.split("\x01")[0] for entry in bytes(record.properties_bytes).decode().split("\x02") if entry]
        assert names == ["MSG_REGION", "UNIQ_KEY", "CLUSTER", "TAGS", "KEYS", "WAIT", "TRACE_ON"]

    broker(main)


def test_a_negative_queue_is_chosen_among_the_write_queues(broker):
    async def main(desk):
        chosen = [int((await desk.send("T", queue_id=-1)).ext["queueId"]) for _ in range(40)]
        assert set(chosen) == {0, 1, 2, 3}

    broker(main)


# --- checks, in their order -----------------------------------------------------------------------------------------


def test_a_message_without_a_body_is_refused(broker):
    code, remark = refusal_of(broker, body=None)
    assert code == 13
    assert "no body" in remark


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "..", "T" * 128, "Ä"])
def test_an_illegal_topic_name_is_refused(broker, topic):
    assert refusal_of(broker, topic)[0] == 29


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"])
def test_a_topic_of_the_broker_itself_takes_no_message(broker, topic):
    assert refusal_of(broker, topic)[0] == 16


def test_an_unknown_topic_without_automatic_creation_is_refused_with_the_way_out(broker):
    code, remark = refusal_of(broker, settings={"autoCreateTopicEnable": False})
    assert code == 17
    assert "gantrymq topic create -t T" in remark


def test_a_queue_beyond_both_numbers_is_refused(broker):
    assert refusal_of(broker, queue_id=4)[0] == 29
    assert refusal_of(broker, queue_id=3)[0] == 0


@pytest.mark.parametrize("topic", ["T", "no good!", "SCHEDULE_TOPIC_XXXX"])
def test_before_the_set_time_nothing_is_taken_and_no_topic_made(broker, topic):
    async def main(desk):
        before = dict(desk.tables.topics.view)
        answer = await desk.send(topic)
        assert answer.code == 1
        assert "startAcceptSendRequestTimeStamp" in answer.remark
        assert dict(desk.tables.topics.view) == before
        await desk.clock.sleep(60)
        assert (await desk.send("T")).code == 0

    broker(main, startAcceptSendRequestTimeStamp=START_MS + 60_000)


def test_a_broker_without_write_permission_refuses_ordered_topics_only(broker):
    assert refusal_of(broker, settings={"brokerPermission": 4})[0] == 0


def test_a_retry_topic_needs_its_group_which_is_made_where_that_may_be(broker):
    assert refusal_of(broker, "%RETRY%CG", settings={"autoCreateSubscriptionGroup": False})[0] == 26

    async def main(desk):
        assert (await desk.send("%RETRY%CG", default_topic_queue_nums=3)).code == 0
        assert desk.tables.groups.get("CG").retry_max_times == 16
        return desk.tables.topics.get("%RETRY%CG")

    topic = broker(main)
    assert (topic.read_queues, topic.write_queues, topic.perm) == (3, 3, 6)


def test_a_message_over_the_limit_is_refused(broker):
    assert refusal_of(broker, body=b"x" * 2049, settings={"maxMessageSize": 2048})[0] == 13
    assert refusal_of(broker, body=b"x" * 2048, settings={"maxMessageSize": 2048})[0] == 0


def test_properties_over_the_limit_are_refused(broker):
    assert refusal_of(broker, properties=text(long="x" * 33_000))[0] == 13


# --- unimplemented features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "code", "word"),
    [
        ({"DELAY": "3"}, 13, "schedule plugin"),
        ({"TIMER_DELAY_MS": "500"}, 13, "schedule plugin"),
        ({"TIMER_DELAY_SEC": "5"}, 13, "schedule plugin"),
        ({"TIMER_DELIVER_MS": str(START_MS)}, 13, "schedule plugin"),
        ({"TRAN_MSG": "true"}, 16, "transaction plugin"),
    ],
)
def test_delays_and_transactions_are_refused_with_a_sentence_not_dropped(broker, own, code, word):
    found, remark = refusal_of(broker, properties=text(**own))
    assert found == code
    assert word in remark


@pytest.mark.parametrize("own", [{"DELAY": "0"}, {"DELAY": "-1"}, {"TRAN_MSG": "false"}])
def test_what_asks_for_no_delay_and_no_transaction_is_stored(broker, own):
    assert refusal_of(broker, properties=text(**own))[0] == 0


def test_transactions_that_are_switched_off_say_so(broker):
    code, remark = refusal_of(broker, properties=text(TRAN_MSG="true"), settings={"rejectTransactionMessage": True})
    assert code == 16
    assert "rejectTransactionMessage" in remark


# --- batches --------------------------------------------------------------------------------------------------------

ENVELOPE = text(UNIQ_KEY="B1", WAIT="true")


def test_a_batch_is_stored_entry_by_entry_and_answered_with_every_id(broker):
    async def main(desk):
        entries = [(b"one", b"TAGS\x01a"), (b"two", b""), (b"three", b"TAGS\x01b\x02KEYS\x01k\x02")]
        answer = await desk.send_batch("T", entries, properties=ENVELOPE)
        assert (answer.code, answer.ext["queueOffset"], answer.ext["transactionId"]) == (0, "0", "B1")
        found = records(await desk.pull("T"))
        assert [bytes(record.body) for record in found] == [b"one", b"two", b"three"]
        assert [record.queue_offset for record in found] == [0, 1, 2]
        assert [int(each[16:], 16) for each in answer.ext["msgId"].split(",")] == [each.log_offset for each in found]
        assert [record.properties.get("TAGS") for record in found] == ["a", None, "b"]
        assert all(record.properties["UNIQ_KEY"] == "B1" for record in found)  # the text of the envelope is last

    broker(main)


def test_entries_keep_their_own_ids_when_the_envelope_has_none(broker):
    """Clients before 5.0 send batches without an id; an id added by the broker would hide the ids of the entries."""

    async def main(desk):
        entries = [(b"one", b"UNIQ_KEY\x01U1\x02"), (b"two", b"UNIQ_KEY\x01U2\x02")]
        for count in (2, 1):
            answer = await desk.send_batch("T", entries[:count], properties="WAIT\x01true")
            assert answer.code == 0
            assert "transactionId" not in answer.ext
        assert [record.properties["UNIQ_KEY"] for record in records(await desk.pull("T"))] == ["U1", "U2", "U1"]

    broker(main)


@pytest.mark.parametrize(("filter_type", "bits"), [("SINGLE_TAG", 1), ("MULTI_TAG", 3)])
def test_messages_of_a_topic_with_many_tags_are_marked_in_batches_too(broker, filter_type, bits):
    async def main(desk):
        desk.tables.topics.put(TopicConfig("T", 1, 1, filter_type=filter_type))
        await desk.send("T", sys_flag=1)
        await desk.send_batch("T", [(b"one", b""), (b"two", b"")], sys_flag=1)
        assert [record.sys_flag for record in records(await desk.pull("T"))] == [bits] * 3

    broker(main)


def test_the_batch_bit_counts_not_the_code_alone(broker):
    """C++ sends its batches as 310."""

    async def main(desk):
        batch = await desk.send_batch("T", [(b"one", b""), (b"two", b"")], properties=ENVELOPE)
        assert batch.ext["msgId"].count(",") == 1
        again = await desk.send("T", encode_batch([(0, b"one", b""), (0, b"two", b"")]), batch=True)
        assert again.ext["msgId"].count(",") == 1

    broker(main)


@pytest.mark.parametrize(
    ("topic", "body", "own"),
    [
        ("%RETRY%CG", None, {}),
        ("T", None, {"TRAN_MSG": "true"}),
        ("T", None, {"DELAY": "1"}),
        ("T", b"no batch", {}),
        ("T", b"\0\0\0\x10", {}),
    ],
)
def test_a_batch_that_may_not_be_is_refused_whole(broker, topic, body, own):
    async def main(desk):
        await desk.heartbeat("CG")
        good = [(b"one", b""), (b"two", b"")]
        if body is None:
            answer = await desk.send_batch(topic, good, properties=text(**own))
        else:
            answer = await desk.send(topic, body, code=320, batch=True)
        assert answer.code == 13
        assert desk.tables.stats.put.total == 0

    broker(main)


def test_oneway_sends_are_stored_and_never_answered(broker):
    async def main(desk):
        await desk.send("T")
        connection = await desk.client.connect(ADDRESS)
        for topic in ("T", "no good!"):
            connection.oneway(request(310, send_header(topic).to_ext_v2(), b"quiet", oneway=True))
        await desk.clock.sleep(1)
        assert [bytes(record.body) for record in records(await desk.pull("T"))] == [b"body", b"quiet"]

    broker(main)
