"""The HA protocol of elected roles: recorded streams of Java 5.3.3, and what is refused."""

import base64
import random
import struct
from itertools import groupby

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.interfaces import LogRange
from gantrymq_replication.election.auto_switch import (
    HandshakeAnswer,
    MasterSide,
    Piece,
    Report,
    SlaveHandshake,
    SlaveSide,
)
from gantrymq_replication.election.epochs import Epoch, EpochList
from gantrymq_replication.protocol import Refused

SCENARIOS = ["autoswitch", "controllers3", "jraft3", "partition"]
TO_SLAVE = "master->slave"
HELLO = SlaveHandshake(2, False, False)
ONE = EpochList([Epoch(1, 0)])


def connections(java, scenario):
    """The rows of each connection, with their bytes."""
    rows = [{**row, "raw": base64.b64decode(row["raw"])} for row in java["streams"][scenario]]
    return [[*group] for _, group in groupby(rows, key=lambda row: row["conn"])]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_master_sends_the_bytes_of_a_java_master(java, scenario):
    for rows in connections(java, scenario):
        side, epochs, log = MasterSide(), EpochList(), LogRange(0, 0)
        for row in rows:
            raw = row["raw"]
            if row["dir"] != TO_SLAVE:
                assert len([*side.receive(raw)]) == 1
            elif row["state"] == 1:
                epochs = EpochList(Epoch(*each) for each in row["epochs"])
                log = LogRange(0, row["maxOffset"])
                assert side.answer(epochs, log.max_offset) == raw
            else:
                if side.next_offset < 0 and row["offset"] >= 0:  # an empty log has no place to begin, so Java sends -1
                    side.begin(LogRange(0, max(log.max_offset, 1)), 0)
                assert row["size"] <= side.room(epochs) or not row["size"]
                assert b"".join(side.transfer(raw[36:], epochs, row["confirmOffset"])) == raw
        assert side.slave == SlaveHandshake(rows[0]["brokerId"], False, False)


@pytest.mark.parametrize(
    ("slave", "kind"),
    [((2, True, False), 0), ((2, True, True), 1), ((2, True, True, True), 1), ((2, True, False, True), 2)],
)
def test_a_slave_says_whether_it_is_a_learner_or_tells_its_tables(slave, kind):
    hello = SlaveSide(SlaveHandshake(*slave)).handshake()
    assert hello == struct.pack(">ihhq", 1, 1, kind, 2)
    side = MasterSide()
    assert [*side.receive(hello)] == [SlaveHandshake(2, True, kind == 1, kind == 2)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_slave_sends_the_bytes_of_a_java_slave(java, scenario):
    for rows in connections(java, scenario):
        side = SlaveSide(SlaveHandshake(rows[0]["brokerId"], False, False))
        sent = [row for row in rows if row["dir"] != TO_SLAVE]
        assert side.handshake() == sent[0]["raw"]
        assert [side.report(row["maxOffset"]) for row in sent[1:]] == [row["raw"] for row in sent[1:]]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", range(3))
def test_our_slave_takes_what_a_java_master_sends_however_it_is_cut(java, scenario, seed):
    cuts = random.Random(seed)
    for rows in connections(java, scenario):
        data, side, found, log = b"".join(r["raw"] for r in rows if r["dir"] == TO_SLAVE), SlaveSide(HELLO), [], b""
        start = next(row["maxOffset"] for row in rows if row["state"] == 2)
        while data:
            size = cuts.choice((1, 7, 36, 37, 4096, 100_000))
            for event in side.receive(data[:size]):
                if isinstance(event, HandshakeAnswer):
                    side.follow(start)
                else:
                    log += event.data
                found.append(event)
            data = data[size:]
        expected = [row for row in rows if row["dir"] == TO_SLAVE]
        assert found[0] == HandshakeAnswer(
            tuple(Epoch(*each) for each in expected[0]["epochs"]), expected[0]["epoch"], expected[0]["maxOffset"]
        )
        assert log == b"".join(row["raw"][36:] for row in expected[1:])
        assert side.position == start + len(log)
        last = expected[-1]
        assert found[-1].epoch == Epoch(last["epoch"], last["epochStartOffset"])
        assert found[-1].confirm_offset == last["confirmOffset"]


def test_transfers_of_a_recorded_master_give_the_recorded_epoch_list(java):
    """A slave that copies everything has the list that Java's slave had in its file at the end."""
    epochs = EpochList()
    for rows in connections(java, "autoswitch"):
        for row in rows:
            if row["dir"] == TO_SLAVE and row["state"] == 2 and row["size"]:
                epochs.append(row["epoch"], row["epochStartOffset"])
    assert epochs == EpochList([Epoch(1, 0), Epoch(2, 12072), Epoch(3, 17342), Epoch(4, 20132)])


def test_a_repeated_handshake_is_answered_once():
    side = MasterSide()
    hello = SlaveSide(HELLO).handshake()
    assert [*side.receive(hello + hello[:3])] == [HELLO]
    assert [*side.receive(hello[3:] + SlaveSide(HELLO).report(5))] == [Report(5)]
    with pytest.raises(Refused, match="broker id 3 now, and was 2"):
        [*side.receive(SlaveSide(SlaveHandshake(3, False, False)).handshake())]


def begun(acked=0, log=LogRange(0, 100), hello=HELLO, last_file=0):  # noqa: B008 (it is immutable)
    side = MasterSide()
    [*side.receive(SlaveSide(hello).handshake() + SlaveSide(hello).report(acked))]
    side.begin(log, last_file)
    return side


def test_where_a_transfer_begins():
    assert begun(30).next_offset == 30
    assert begun(0, LogRange(20, 100)).next_offset == 20
    assert begun(0, LogRange(20, 100), SlaveHandshake(2, True, False), 60).next_offset == 60
    for asked, why in ((10, "which this master has deleted: its log begins at 20"), (101, "after the end 100 of this")):
        with pytest.raises(Refused, match=f"it asks for log offset {asked}, {why}"):
            begun(asked, LogRange(20, 100))


def test_a_transfer_ends_with_its_epoch():
    side, epochs = begun(30), EpochList([Epoch(1, 0), Epoch(2, 50)])
    assert side.room(epochs) == 20
    side.transfer(bytes(20), epochs, 0)
    assert side.room(epochs) == 4 * 1024 * 1024 - 36
    assert side.room(EpochList([Epoch(2, 70)])) == 0


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"GET / HTTP/1.1\r\n", "no handshake of a broker with elected roles"),
        (SlaveSide(HELLO).report(4), "no handshake"),
        (bytes(8), "no handshake"),
        (SlaveSide(HELLO).handshake() + SlaveSide(HELLO).report(-1), "reports -1"),
    ],
)
def test_a_master_refuses_what_is_no_slave(data, what):
    with pytest.raises(Refused, match=what):
        [*MasterSide().receive(data)]


def test_a_master_refuses_acknowledgements_of_what_it_did_not_send():
    side = begun(30)
    with pytest.raises(Refused, match="it acknowledges log offset 31"):
        [*side.receive(SlaveSide(HELLO).report(31))]


def greeted(epochs=ONE, start=0, **more):
    side, master = SlaveSide(HELLO, **more), MasterSide()
    [*side.receive(master.answer(epochs, 100))]
    side.follow(start)
    return side, master


def test_a_slave_refuses_a_master_of_an_older_epoch():
    with pytest.raises(Refused, match="master of epoch 1, and the master of epoch 2 is known"):
        greeted(least_epoch=2)
    greeted(least_epoch=1)


@pytest.mark.parametrize(
    ("start", "frame", "what"),
    [
        (7, (b"x", 8), "log offset 8 where 7 was expected"),
        (7, (b"", 6), "log offset 6 where 7 was expected"),
    ],
)
def test_a_slave_refuses_what_does_not_follow(start, frame, what):
    side, master = greeted(start=start)
    master.next_offset = frame[1]
    with pytest.raises(Refused, match=what):
        [*side.receive(b"".join(master.transfer(frame[0], ONE, 0)))]


def test_a_slave_refuses_older_epochs_after_newer_ones():
    side, master = greeted(EpochList([Epoch(1, 0), Epoch(2, 5)]), start=5)
    master.next_offset = 5
    [*side.receive(b"".join(master.transfer(b"xx", EpochList([Epoch(2, 5)]), 0)))]
    with pytest.raises(Refused, match="epoch 1 after bytes of epoch 2"):
        [*side.receive(b"".join(master.transfer(b"xx", ONE, 0)))]


def test_a_slave_refuses_a_classic_master_and_a_second_handshake():
    with pytest.raises(Refused, match="HA port of a broker with elected roles"):
        [*SlaveSide(HELLO).receive(bytes(8) + b"\0\0\0\0")]
    side, master = greeted()
    with pytest.raises(Refused, match="does not follow"):
        [*side.receive(master.answer(ONE, 100))]


def test_an_empty_slave_begins_anywhere():
    side, master = greeted()
    assert [*side.receive(b"".join(master.transfer(b"", ONE, 0)))] == [Piece(-1, b"", Epoch(1, 0), 0)]
    master.next_offset = 40
    assert [*side.receive(b"".join(master.transfer(b"abc", ONE, 43)))] == [Piece(40, b"abc", Epoch(1, 0), 43)]
    assert side.position == 43


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_refused_or_not_understood_yet(seed):
    rng = random.Random(seed)
    for make in (lambda: MasterSide(), lambda: SlaveSide(HELLO)):
        try:
            for _ in range(20):
                [*make().receive(rng.randbytes(rng.randrange(60)))]
        except Refused:
            pass


def test_too_many_epochs_leave_out_the_oldest():
    epochs = EpochList(Epoch(number, number) for number in range(1200))
    answer = next(SlaveSide(HELLO).receive(MasterSide().answer(epochs, 5000)))
    assert len(answer.epochs) == 1000 and answer.epochs[-1] == Epoch(1199, 1199) and answer.last_epoch == 1199
