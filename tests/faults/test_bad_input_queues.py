"""Batch queues and light queues: requests for them that are refused."""

import json

import pytest
from faulty_broker import start_broker
from test_bad_input_stores import FIRST, MIB, make

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.formats.record import iter_records
from gantrymq.remoting.codes import RequestCode

LIGHT = {"enableLmq": True, "enableMultiDispatch": True, "maxLmqConsumeQueueNum": 2}
HEAD = {"a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": "true"}


def names(*queues):
    return "INNER_MULTI_DISPATCH\x01" + ",".join(queues) + "\x02"


@pytest.fixture
def light(broker_with):
    """A peer of a broker with two existing light queues."""
    broker = broker_with(**LIGHT)
    with broker.peer() as peer:
        assert peer.send("T", b"listed", names("%LMQ%a", "%LMQ%b")).code == 0
        yield peer
        for queue in ("%LMQ%a", "%LMQ%b"):
            assert [bytes(record.body) for record in iter_records(peer.pull(queue).payload)] == [b"listed"]


@pytest.mark.parametrize(("properties", "sys_flag"), [("INNER_NUM\x013\x02", 0), ("", 128)])
def test_bi116_a_single_message_that_claims_to_be_an_inner_batch(broker, row, properties, sys_flag):
    with broker.peer() as peer:
        assert peer.create_topic("Batches", attributes="+queue.type=BatchCQ").code == 0
        answer = peer.send("Batches", b"x", properties, f=sys_flag)
        row.check(answer.remark, answer.code)
        assert peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "Batches", "queueId": 0}).ext["offset"] == "0"


def test_bi117_a_kind_of_queue_that_a_topic_was_not_made_with(broker, row):
    with broker.peer() as peer:
        for topic, made, asked in (("Plain", "", "BatchCQ"), ("Batches2", "+queue.type=BatchCQ", "SimpleCQ")):
            assert peer.create_topic(topic, attributes=made).code == 0
            answer = peer.create_topic(topic, attributes=f"+queue.type={asked}")
            row.check(answer.remark, answer.code, topic=topic, type="BatchCQ" if made else "SimpleCQ")
        assert peer.create_topic("Batches2", attributes="+queue.type=BatchCQ").code == 0


@pytest.mark.parametrize("where", ["envelope", "entry"])
def test_bi118_light_queues_named_by_a_batch(light, row, where):
    of_envelope, of_entry = (names("%LMQ%a"), "") if where == "envelope" else ("", names("%LMQ%a"))
    body = encode_batch([BatchEntry(0, b"x", of_entry.encode())])
    answer = light.ask(RequestCode.SEND_BATCH_MESSAGE, {**HEAD, "i": of_envelope}, body)
    row.check(answer.remark, answer.code, topic="T")


def test_bi119_light_queues_named_by_a_message_for_batch_queues(light, row):
    assert light.create_topic("Batches", attributes="+queue.type=BatchCQ").code == 0
    answer = light.send("Batches", b"x", names("%LMQ%a"))
    row.check(answer.remark, answer.code, topic="Batches")


@pytest.mark.parametrize(
    ("name", "why"),
    [("q", "its name lacks %LMQ% in front"), ("%LMQ%a/b", "the topic '%LMQ%a/b' is not usable as a folder's name")],
)
def test_bi120_a_name_that_is_no_light_queue_s(broker_with, row, name, why):
    with broker_with(**LIGHT).peer() as peer:
        answer = peer.send("T", b"x", names(name))
        row.check(answer.remark, answer.code, name=repr(name), why=why)


def test_bi121_one_light_queue_too_many(light, row):
    answer = light.send("T", b"x", names("%LMQ%c"))
    row.check(answer.remark, answer.code, name="%LMQ%c", count=2, most=2)


def test_bi122_dispatch_to_light_queues_without_light_queues(program, row, tmp_path):
    row.check(*program.refusal("--store", tmp_path / "store", "--set", "enableMultiDispatch=true"))


def test_bi123_files_of_a_batch_queue_of_another_size(program, row, tmp_path):
    file = make(tmp_path / "store" / "batchconsumequeue" / "T" / "0" / FIRST, 460)
    row.check(*program.refusal("--store", tmp_path / "store"), file=file, size=460, configured=13_800_000)


def test_bi124_batch_queues_of_a_topic_that_is_no_longer_marked(program, row, tmp_path):
    store = tmp_path / "store"
    running = start_broker(store, mappedFileSizeCommitLog=4 * MIB)
    with running.peer() as peer:
        assert peer.create_topic("T", attributes="+queue.type=BatchCQ").code == 0
        assert peer.send("T").code == 0
    running.close()
    topics = store / "config" / "topics.json"
    table = json.loads(topics.read_text())
    table["topicConfigTable"]["T"]["attributes"] = {}
    topics.write_text(json.dumps(table))
    row.check(*program.refusal("--store", store), folder=store / "batchconsumequeue" / "T", topic="T")
