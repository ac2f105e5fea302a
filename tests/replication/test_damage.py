"""What a slave does with a log that differs from its master's: damage is mended or named, whole records are kept."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from ha_pairs import SETTINGS, end, following, log_of, problem, put, simulate_pair, slave_of

from gantrymq.errors import StoreError
from gantrymq.interfaces import LogRange
from gantrymq_replication.damage import BLANK_MAGIC, is_damaged
from gantrymq_replication.log_comparison import fixed_comparison
from gantrymq_testing.cluster import Cluster

LOG = Path("/slave/store/commitlog/00000000000000000000")
LARGE = {"mappedFileSizeCommitLog": 1 << 20}


async def killed(pair, host="10.0.0.9", lag_s=1.5):
    """Two slaves of a master that have 50 records on their disks; one has 50 more of them, and is killed."""
    master = await pair.master(haListenPort=20000, **LARGE)
    await put(master, 50)
    process = pair.process(host)
    slave = Cluster(process.world, Path("/slave"), {**SETTINGS, **slave_of(master), **LARGE})
    await process.run(slave.start())
    other = await pair.slave(master, "other", brokerId=2, **LARGE)
    await pair.equal(master, slave)
    await pair.equal(master, other)
    await pair.world.clock.sleep(lag_s)
    mark = int(pair.world.files.read(Path("/slave/store/plugins/replication/durable")))
    assert mark == end(master)
    await other.stop()
    await put(master, 50)
    await pair.equal(master, slave)
    process.kill()
    await master.stop()
    return mark


def test_records_that_were_acknowledged_after_the_mark_are_not_cut_for_another_master():
    async def main(pair):
        mark = await killed(pair)
        before = pair.world.files.read(LOG)
        master = await pair.start("other", haListenPort=20000, **LARGE)  # it has not got the last ones
        await put(master, 80)
        slave = await pair.slave(master, **LARGE)
        await pair.until(lambda: "differs from the master's" in problem(slave), "refusal")
        await pair.world.clock.sleep(20)
        assert "written by another master" in problem(slave) and "last copies" in problem(slave)
        assert end(slave) > mark and pair.world.files.read(LOG) == before and not following(slave)

    simulate_pair(main)


@pytest.mark.parametrize("cut", [3000, 20_000])
def test_what_is_cut_after_a_power_cut_is_kept(cut):
    async def main(pair):
        mark = await killed(pair)
        data = bytearray(pair.world.files.read(LOG))
        last = len(bytes(data).rstrip(b"\0"))
        data[mark + 9000 : mark + 9000 + cut] = bytes(cut)
        pair.world.files.replace(LOG, bytes(data))
        master = await pair.master(haListenPort=20000, **LARGE)
        slave = await pair.slave(master, **LARGE)
        await pair.equal(master, slave)
        kept = Path("/slave/store/recovered")
        folder = kept / max(pair.world.files.list(kept)) / "commitlog"  # recovery has kept the damaged bytes before
        (name,) = pair.world.files.list(folder)
        assert mark <= int(name) < mark + 9000
        assert bytes(data[mark + 10_000 + cut : last]) in pair.world.files.read(folder / name)

    simulate_pair(main)


def test_a_copy_that_was_damaged_after_a_clean_stop_is_called_damaged():
    async def main(pair):
        master = await pair.master()
        await put(master, 50)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await slave.stop()
        data = bytearray(pair.world.files.read(LOG))
        data[20_000:20_100] = b"\xaa" * 100
        pair.world.files.replace(LOG, bytes(data))
        await slave.start()
        await pair.until(lambda: "this log is damaged at 20" in problem(slave), "refusal")
        assert "gantrymq store check" in problem(slave) and "another master" not in problem(slave)

    simulate_pair(main)


async def copied_and_killed(pair, master):
    """A slave that has copied what its master has, killed in its first second."""
    process = pair.process("10.0.0.9")
    slave = Cluster(process.world, Path("/slave"), {**SETTINGS, **slave_of(master)})
    await process.run(slave.start())
    await pair.equal(master, slave)
    process.kill()


def zero(pair, path, start, stop):
    data = bytearray(pair.world.files.read(path))
    data[start:stop] = bytes(stop - start)
    pair.world.files.replace(path, bytes(data))


def test_damage_before_the_first_mark_is_cut():
    async def main(pair):
        master = await pair.master()
        await put(master, 50)
        await copied_and_killed(pair, master)
        zero(pair, LOG, 8192, 12_288)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        assert pair.world.files.list(Path("/slave/store/recovered"))

    simulate_pair(main)


def test_damage_before_the_first_mark_of_a_copy_that_does_not_begin_at_0_is_cut():
    async def main(pair):
        master = await pair.master()
        await put(master, 200)
        await master.stop()
        pair.world.files.remove(Path("/master/store/commitlog/00000000000000000000"))
        await master.start()
        await copied_and_killed(pair, master)
        zero(pair, LOG.with_name("00000000000000065536"), 8192, 12_288)
        slave = await pair.slave(master)
        await pair.equal(master, slave)

    simulate_pair(main)


def test_the_mark_of_a_copy_that_had_records_before_is_its_end():
    async def main(pair):
        master = await pair.master()
        await put(master, 50)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await slave.stop()
        mark = Path("/slave/store/plugins/replication/durable")
        with suppress(FileNotFoundError):
            pair.world.files.remove(mark)
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave), "a connection")
        assert int(pair.world.files.read(mark)) == end(slave)

    simulate_pair(main)


@pytest.mark.parametrize("size", [100, 500, 3000])  # one of 3000 bytes does not fit into that hole
def test_damage_up_to_the_end_of_a_file_is_cut(size):
    async def main(pair):
        master = await pair.master()
        await put(master, 160_000 // (size + 150), size)
        await copied_and_killed(pair, master)
        zero(pair, LOG, 61_440, 65_536)
        slave = await pair.slave(master)
        await pair.equal(master, slave)

    simulate_pair(main)


@pytest.mark.parametrize("count", [30, 3])  # its log ends after the slave's blank, or in it
def test_a_blank_before_records_of_another_master_is_no_damage(count):
    async def main(pair):
        master = await pair.master(haListenPort=20000)
        await put(master, 80)
        process = pair.process("10.0.0.9")
        slave = Cluster(process.world, Path("/slave"), {**SETTINGS, **slave_of(master)})
        await process.run(slave.start())
        other = await pair.slave(master, "other", brokerId=2)
        await pair.equal(master, other)
        await other.stop()
        before = end(master)
        await put(master, 2, 65_536 - before)  # the next file begins with it
        await pair.equal(master, slave)
        process.kill()
        await master.stop()
        data = pair.world.files.read(LOG)
        assert before < 65_536 < end(slave) and data[before + 4 : before + 8] == BLANK_MAGIC
        master = await pair.start("other", haListenPort=20000)
        await put(master, count, 2000 if count > 3 else 500)
        slave = await pair.slave(master)
        what = "written by another master" if count > 3 else "records that the master does not have"
        await pair.until(lambda: what in problem(slave), "refusal")
        await pair.world.clock.sleep(20)
        assert pair.world.files.read(LOG) == data and not following(slave)

    simulate_pair(main)


@pytest.mark.parametrize("count", [0, 5])
def test_a_blank_that_the_master_does_not_have_is_cut(count):
    async def main(pair):
        master = await pair.master()
        await put(master, 80)
        await copied_and_killed(pair, master)
        data, last = pair.world.files.read(LOG), end(master)
        blank = (65_536 - last).to_bytes(4, "big") + BLANK_MAGIC
        pair.world.files.replace(LOG, data[:last] + blank + data[last + 8 :])
        await put(master, count)
        slave = await pair.slave(master)
        await pair.equal(master, slave)

    simulate_pair(main)


def test_which_bytes_are_damage():
    async def main(pair):
        master = await pair.master()
        await put(master, 130)
        return (await log_of(master))[1]

    data = simulate_pair(main)
    size = int.from_bytes(data[:4], "big")
    for start in (0, size + 7):  # the bytes may begin in a record
        for place in (size * 10, size * 10 + 3, size * 10 + 60, size * 11 - 1):
            assert not is_damaged(start, data[start:], place)
    assert not is_damaged(0, data, 65536 - 10)  # the blank at the end of the file
    broken = bytearray(data)
    broken[size * 10 + 100 : size * 10 + 110] = b"x" * 10
    assert is_damaged(0, bytes(broken), size * 10 + 100)
    broken = bytearray(data)
    broken[size * 10 : size * 11] = bytes(size)
    assert is_damaged(0, bytes(broken), size * 10) and is_damaged(0, bytes(broken), size * 10 + 50)
    broken = bytearray(data)
    broken[size * 11 - 40 : size * 11] = bytes(40)  # properties, which the checksum does not cover
    assert is_damaged(0, bytes(broken), size * 11 - 40) is ((size * 11 - 1) // 4096 == (size * 11 - 40) // 4096)
    assert is_damaged(0, bytes(10_000), 5000) and is_damaged(0, b"", 0)


# --- where the comparison begins --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "start"), [(None, 34_464), (65_536, 65_536), (100_000, 34_464), (20_000, 34_464)])
def test_a_later_place_to_begin(later, start):
    assert fixed_comparison(LogRange(0, 100_000), None, later).start == start


def test_a_complete_copy_follows_a_master_that_has_deleted_where_the_comparison_begins():
    async def main(pair):
        master = await pair.master()
        await put(master, 130)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await slave.stop()
        pair.world.files.remove(Path("/master/store/commitlog/00000000000000000000"))
        await master.stop()
        pair.world.files.remove(Path("/master/store/checkpoint"))
        await master.start()
        assert end(master) - 65_536 < 65_536 == master.store.raw_log.log_range().min_offset
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave) and end(slave) == end(master), "comparison", 5)
        await put(master, 3)
        await pair.until(lambda: end(slave) == end(master), "copy", 2)

    simulate_pair(main)


# --- when it follows --------------------------------------------------------------------------------------------------


def test_an_empty_slave_does_not_follow_a_port_that_sends_nothing():
    async def main(pair):
        await pair.world.network.listen("127.0.0.1", 20000, asyncio.Protocol)
        slave = await pair.slave("127.0.0.1:20000")
        for _ in range(50):
            await pair.world.clock.sleep(0.5)
            assert not following(slave)
        assert problem(slave)

    simulate_pair(main)


def test_an_empty_slave_of_an_empty_master_follows_at_once():
    async def main(pair):
        slave = await pair.slave(await pair.master())
        assert await pair.until(lambda: following(slave), "a heartbeat", 5) < 0.5

    simulate_pair(main)


def test_a_slave_that_takes_no_more_tries_less_and_less_often(caplog):
    async def main(pair):
        master = await pair.master()
        slave = await pair.slave(master)
        await put(master, 10)
        await pair.equal(master, slave)
        await pair.world.clock.sleep(5)
        log, append = slave.store.raw_log, slave.store.raw_log.append_raw
        calls, full = [], [True]

        def append_raw(log_offset, data):
            if full[0]:
                calls.append(log_offset)
                raise StoreError("no space left on the disk")
            return append(log_offset, data)

        log.append_raw = append_raw
        caplog.clear()
        await put(master, 5)
        told = 0
        for _ in range(600):
            await pair.world.clock.sleep(0.1)
            told += "this slave's store takes no more: no space left" in problem(slave)
        assert told > 550 and 5 < len(calls) < 15
        assert len(caplog.records) < 6, [each.getMessage() for each in caplog.records]
        full[0] = False
        await pair.until(lambda: end(slave) == end(master), "copy", 20)
        await pair.until(lambda: "begins to follow" in caplog.text, "a line", 20)

    caplog.set_level("INFO", "gantrymq.replication")
    simulate_pair(main)
