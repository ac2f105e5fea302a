"""The recorded stream between a Java master and a Java slave (5.3.3): ours sends and takes the same bytes.

`ha_stream.jsonl.xz` has the slave's reports and the master's transfers in the order of the recording; `raw` is all of
one.
"""

import asyncio
import base64
import json
import lzma
import random
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from ha_pairs import end, log_of, replicas, simulate_pair

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


def test_our_slave_copies_from_a_recorded_java_master(stream, log):
    """The transfers come one after the other; the slave's log is the master's, and its reports are of whole records."""
    sent, reports = [raw for direction, raw in stream if direction == TO_SLAVE], []

    async def serve(reader, writer):
        reports.append(await reader.readexactly(8))
        for raw in sent:
            writer.write(raw)
            await asyncio.sleep(0.01)
        while data := await reader.read(1 << 16):
            reports.extend(data[start : start + 8] for start in range(0, len(data), 8))

    async def main(pair):
        await pair.world.network.listen(
            "127.0.0.1", 20000, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)
        )
        slave = await pair.slave("127.0.0.1:20000")
        await pair.until(lambda: end(slave) == 56401, "copy")
        await pair.until(lambda: reports[-1] == REPORT.pack(56401), "report")
        return (await log_of(slave))[1]

    assert simulate_pair(main) == log[:56401]
    assert reports[0] == bytes(8) and reports == sorted(reports)


def test_a_recorded_java_slave_is_served_by_our_master(stream, log):
    async def main(pair):
        folder = Path("/master/store/commitlog")
        pair.world.files.make_dirs(folder)
        pair.world.files.replace(folder / f"{0:020}", log)
        master = await pair.master()
        assert end(master) == 56401
        reader, writer = await pair.connect(master)
        side, copy = SlaveSide(0), b""
        writer.writelines(raw for direction, raw in stream[:1] if direction != TO_SLAVE)
        while len(copy) < 56401:
            for transfer in side.receive(await reader.read(1 << 16)):
                copy += transfer.data
        for direction, raw in stream[1:]:
            if direction != TO_SLAVE:
                writer.write(raw)
        await pair.until(lambda: [each.acked for each in replicas(master)] == [56401], "acknowledgement")
        writer.close()
        return copy

    assert simulate_pair(main) == log[:56401]
