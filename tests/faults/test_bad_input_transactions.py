"""Invalid decisions, half messages that cannot be decided, and invalid requests of operators."""

import logging
import time

import pytest

pytest.importorskip("gantrymq_transaction")

from faulty_broker import FAST, start_broker

from gantrymq.errors import PluginError

PLUGINS = FAST["plugins"] + ",transaction"
END = 37


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """The broker of `broker`, with transactions."""
    running = start_broker(tmp_path_factory.mktemp("transactions") / "store", plugins=PLUGINS)
    yield running
    running.close()


def half(peer, more="", born_ms=None):
    """A half message; the fields by which its producer decides it."""
    properties = "TRAN_MSG\1true\2PGROUP\1PG\2UNIQ_KEY\1ID1\2" + more
    answer = peer.send("T", b"half", properties, f=4, g=round(time.time() * 1000) if born_ms is None else born_ms)
    assert answer.code == 0, answer.remark
    return {
        "producerGroup": "PG",
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "commitOrRollback": "8",
        "msgId": "ID1",
    }


def test_bi202_a_decision_on_an_unknown_transaction(broker, row):
    with broker.peer() as peer:
        fields = half(peer)
        for offset in ("1", "-1", str(1 << 60)):
            answer = peer.ask(END, {**fields, "commitLogOffset": offset})
            row.check(answer.remark, answer.code, offset=offset)
        ordinary = peer.send("T", b"whole", "PGROUP\1PG\2")
        offset = int(ordinary.ext["msgId"][16:], 16)
        answer = peer.ask(END, {**fields, "tranStateTableOffset": "0", "commitLogOffset": offset})
        row.check(answer.remark, answer.code, offset=offset)


def test_bi203_a_decision_of_another_group(broker, row):
    with broker.peer() as peer:
        fields = half(peer)
        answer = peer.ask(END, {**fields, "producerGroup": "Others"})
        row.check(answer.remark, answer.code, offset=fields["commitLogOffset"], owner="PG", group="Others")


def test_bi204_a_decision_with_another_queue_offset(broker, row):
    with broker.peer() as peer:
        fields = half(peer)
        own = fields["tranStateTableOffset"]
        answer = peer.ask(END, {**fields, "tranStateTableOffset": "77"})
        row.check(answer.remark, answer.code, offset=fields["commitLogOffset"], queue_offset=own, named=77)


def test_bi205_a_rollback_after_the_commit(broker_with, row):
    with broker_with(plugins=PLUGINS).peer() as peer:
        fields = half(peer)
        assert peer.ask(END, fields).code == 0
        answer = peer.ask(END, {**fields, "commitOrRollback": "12"})
        row.check(answer.remark, answer.code, offset=fields["commitLogOffset"])
        assert peer.pull("T").payload.count(b"half") == 1


def test_bi206_a_decision_of_unknown_value(broker, row, logged, monkeypatch):
    monkeypatch.setattr(logging.getLogger("gantrymq_transaction"), "handlers", [logged])
    with broker.peer() as peer:
        fields = half(peer)
        peer.ask(END, {**fields, "commitOrRollback": "9"}, oneway=True)
        seen = logged.wait_for("PG decides")
        row.check(seen, "starts", group="PG", value=9, offset=fields["commitLogOffset"])


def test_bi207_a_half_message_without_a_group(broker, row):
    with broker.peer() as peer:
        answer = peer.send("T", b"half", "TRAN_MSG\1true\2", f=4)
        row.check(answer.remark, answer.code, topic="T")


def test_bi208_a_decision_after_the_message_s_own_time(broker, row):
    with broker.peer() as peer:
        fields = half(peer, "CHECK_IMMUNITY_TIME_IN_SECONDS\0017\2", born_ms=1)
        answer = peer.ask(END, fields)
        age = answer.remark.partition(" is ")[2].partition(" ms ")[0]
        assert int(age) > 7000
        row.check(answer.remark, answer.code, offset=fields["commitLogOffset"], age=age, seconds=7)


def test_bi209_resuming_checks_of_a_message_not_given_up(broker, row):
    with broker.peer() as peer:
        name = peer.send("T").ext["msgId"]
        answer = peer.ask(323, {"msgId": name})
        row.check(answer.remark, answer.code, id=name)


def test_bi210_an_unknown_service(tmp_path, row):
    with pytest.raises(PluginError) as refused:
        start_broker(tmp_path / "store", plugins=PLUGINS, transaction="mine")
    row.check(str(refused.value), "exit 1", name="mine")


@pytest.mark.parametrize("count", [0, 1001])
def test_bi211_a_page_that_is_too_long(broker, row, count):
    with broker.peer() as peer:
        answer = peer.ask(65011, body=b'{"count":%d}' % count)
        row.check(answer.remark, answer.code, start=0, count=count)
