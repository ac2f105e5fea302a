"""Batch queues and light queues through a whole broker: an acknowledged message is in every queue it belongs to,
also after a restart, and groups continue from their offsets.
"""

import json

import pytest
from faulty_broker import FAST, start_broker

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.formats.record import iter_records
from gantrymq.remoting.codes import RequestCode

LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
HEAD = {"a": "PG", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": "true"}
ID = "UNIQ_KEY\x01{}\x02WAIT\x01true\x02"


def offset_of(peer, topic):
    return int(peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"])


def bodies(peer, topic, offset=0):
    return [bytes(record.body) for record in iter_records(peer.pull(topic, queueOffset=offset).payload)]


def test_singles_and_batches_share_a_batch_queue(broker):
    batch = encode_batch([BatchEntry(0, body, b"") for body in (b"a", b"b", b"c")])
    with broker.peer() as peer:
        assert peer.create_topic("Kinds", attributes="+queue.type=BatchCQ").code == 0
        for number in range(3):  # single messages of one shape; the first one teaches the broker that shape
            assert peer.send("Kinds", b"single", ID.format(number)).ext["queueOffset"] == str(4 * number)
            answer = peer.ask(RequestCode.SEND_BATCH_MESSAGE, {**HEAD, "b": "Kinds", "i": ID.format("B")}, batch)
            assert (answer.code, answer.ext["queueOffset"], answer.ext["batchUniqId"]) == (0, str(4 * number + 1), "B")
        assert offset_of(peer, "Kinds") == 12
        assert bodies(peer, "Kinds") == [b"single", batch] * 3
        assert bodies(peer, "Kinds", 6) == [batch, b"single", batch]  # inside a batch
        old = peer.ask(RequestCode.SEND_BATCH_MESSAGE, {**HEAD, "b": "Kinds", "i": "WAIT\x01true\x02"}, batch)
        assert (old.code, len(old.ext["msgId"].split(",")), "batchUniqId" in old.ext) == (0, 3, False)
        assert bodies(peer, "Kinds", 12) == [b"a", b"b", b"c"]


def test_a_light_queue_lists_what_names_it_and_keeps_its_group_s_place(tmp_path):
    fanned = ID.format(1) + "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
    for start in (0, 3):
        broker = start_broker(tmp_path / "store", **LIGHT)
        with broker.peer() as peer:
            for number in range(start, start + 3):
                assert peer.send("T", b"%d" % number, fanned).ext["queueOffset"] == str(number)
            assert offset_of(peer, "%LMQ%a") == offset_of(peer, "%LMQ%b") == start + 3
            assert bodies(peer, "%LMQ%b", start) == [b"%d" % number for number in range(start, start + 3)]
            place = {"consumerGroup": "%LMQ%g", "topic": "%LMQ%a", "queueId": 0}
            if start:
                assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, place).ext["offset"] == "2"
            assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": 2}).code == 0
        broker.close()
    saved = json.loads((tmp_path / "store" / "config" / "lmqConsumerOffset.json").read_text())
    assert saved["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 2}
    topics = json.loads((tmp_path / "store" / "config" / "topics.json").read_text())
    assert not any("LMQ" in name for name in topics["topicConfigTable"])


def test_what_names_light_queues_keeps_room_for_its_offsets_there_while_it_waits(tmp_path):
    pytest.importorskip("gantrymq_schedule")
    names = ",".join(f"%LMQ%{number}" for number in range(300))
    broker = start_broker(tmp_path / "store", plugins=FAST["plugins"] + ",schedule", **LIGHT)

    def waiting(length):
        filled = f"K\x01{'v' * length}\x02"
        return peer.send("T", b"x", f"{ID.format(1)}INNER_MULTI_DISPATCH\x01{names}\x02DELAY\x011\x02{filled}")

    with broker.peer() as peer:
        refused = waiting(25_000)
        size = int(refused.remark.partition("have ")[2].partition(" ")[0])
        assert (refused.code, size > 25_000 + 300 * 20) == (13, True)
        assert waiting(25_000 - (size - 30_867)).code == 0
        assert waiting(25_000 - (size - 30_868)).code == 13
    broker.close()
