"""The recorded stream between a Java master and a Java slave (5.3.3): ours sends and takes the same bytes.

`ha_stream.jsonl.xz` has the slave's reports and the master's transfers in the order of the recording; `raw` is all of
one.
"""

import base64
import json
import lzma
import random
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.interfaces import LogRange
from gantrymq_replication.protocol import HEAD, REPORT, MasterSide, SlaveSide

STREAM = Path(__file__).with_name("ha_stream.jsonl.xz")
TO_SLAVE = "master->slave"


@pytest.fixture(scope="module")
def stream():
    """Direction and bytes of each frame."""
    rows = map(json.loads, lzma.decompress(STREAM.read_bytes()).decode().splitlines())
    return [(row["dir"], base64.b64decode(row["raw"])) for row in rows]


@pytest.fixture(scope="module")
def log(golden):
    """The master's log at the end."""
    return (golden("ha/master").folder / "store/commitlog/00000000000000000000").read_bytes()


def test_our_master_sends_the_bytes_of_a_java_master(stream, log):
    side = MasterSide(0)
    for direction, raw in stream:
        if direction == TO_SLAVE:
            offset, size = HEAD.unpack_from(raw)
            assert b"".join(side.transfer(log[offset : offset + size])) == raw
        else:
            assert side.receive(raw, LogRange(0, 65536))
            assert side.acked == REPORT.unpack(raw)[0]
    assert side.acked == side.next_offset == 56401


@pytest.mark.parametrize("seed", range(5))
def test_our_slave_takes_what_a_java_master_sends_however_it_is_cut(stream, log, seed):
    cuts, side, copy, heartbeats = random.Random(seed), SlaveSide(0), b"", 0
    data = b"".join(raw for direction, raw in stream if direction == TO_SLAVE)
    while data:
        size = cuts.choice((1, 7, 12, 13, 4096, 100_000))
        for transfer in side.receive(data[:size]):
            assert transfer.log_offset == len(copy)
            copy += transfer.data
            heartbeats += not transfer.data
        data = data[size:]
    assert copy == log[: len(copy)] and len(copy) == side.position == 56401
    assert heartbeats == sum(len(raw) == HEAD.size for _, raw in stream)


def test_our_slave_reports_what_a_java_slave_reports(stream):
    reports = [raw for direction, raw in stream if direction != TO_SLAVE]
    side = SlaveSide(0)
    assert [side.report(REPORT.unpack(each)[0]) for each in reports] == reports
