"""Masters and slaves: equal logs, acknowledgements that wait, logs that do not fit."""

import asyncio
import shutil
from pathlib import Path

import pytest
from certificates import make_certificate
from ha_pairs import SETTINGS, end, following, log_of, problem, put, replicas, service, simulate_pair, slave_of

from gantrymq.errors import ConfigError, FlushSlaveTimeout, RequestRefused, SlaveNotAvailable
from gantrymq.interfaces import SendRequest
from gantrymq.model.role import Role
from gantrymq_replication.master import MasterService
from gantrymq_testing.cluster import Cluster

SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}


async def outcome(cluster, topic="Orders"):
    """The code of a send, and the seconds until its answer."""
    clock = cluster.world.clock
    began, answer = clock.monotonic(), await cluster.broker.messages.send(SendRequest("p", topic, b"body"))
    return answer.unconfirmed.response_code if answer.unconfirmed else 0, clock.monotonic() - began


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(3))
def test_a_slave_copies_what_there_is_and_what_comes(seed, flush):
    async def main(pair):
        master = await pair.master(flushDiskType=flush)
        await put(master, 300)
        slave = await pair.slave(master, flushDiskType=flush)
        await pair.equal(master, slave)
        assert slave.broker.role.current is Role.REPLICA
        for _ in range(3):
            await put(master, 50)
            await pair.equal(master, slave, 1)
        await pair.until(lambda: replicas(master)[0].acked == end(master), "acknowledgement", 1)

    simulate_pair(main, seed)


def test_many_small_transfers_arrive_in_one_read():
    async def main(pair):
        master = await pair.master(haTransferBatchSize=1024)
        await put(master, 300)
        slave = await pair.slave(master)
        await pair.equal(master, slave, 1)

    simulate_pair(main)


def test_a_message_is_on_the_slave_within_milliseconds():
    async def main(pair):
        master = await pair.master()
        slave = await pair.slave(master)
        await put(master, 1)
        await pair.equal(master, slave)
        for _ in range(20):
            await put(master, 1)
            assert await pair.until(lambda: end(slave) == end(master), "copy") < 0.1

    simulate_pair(main)


def test_an_append_is_sent_in_the_step_that_appends():
    async def main(pair):
        master = await pair.master(flushDiskType="ASYNC_FLUSH")
        slave = await pair.slave(master)
        await put(master, 1)
        await pair.equal(master, slave)
        await pair.world.clock.sleep(0.1)
        sent = []
        master.broker.messages.on_appended(lambda end: sent.append(end - replicas(master)[0].next_offset))
        await put(master, 3)
        assert sent == [0, 0, 0]

    simulate_pair(main)


def test_little_is_kept_in_memory_for_a_slave_that_does_not_read():
    async def main(pair):
        master = await pair.master(flushDiskType="ASYNC_FLUSH")
        reader, writer = await pair.connect(master)
        writer.write(bytes(8))
        await pair.until(lambda: replicas(master), "report")
        for _ in range(20):
            await put(master, 10, 20_000)
            writer.write(bytes(8))
            await pair.world.clock.sleep(0.1)
        assert end(master) > 4_000_000 > 2_000_000 > replicas(master)[0].next_offset > 0
        reading = asyncio.ensure_future(reader.read())
        await pair.until(lambda: replicas(master)[0].next_offset == end(master), "rest", 5)
        writer.close()
        assert len(await reading) > end(master)

    simulate_pair(main)


def test_a_slave_whose_disk_is_slow_reads_no_more_until_it_has_synced(monkeypatch):
    monkeypatch.setattr("gantrymq_replication.appending.UNREPORTED_BYTES", 100_000)

    async def main(pair):
        master = await pair.master(flushDiskType="ASYNC_FLUSH")
        slave = await pair.slave(master)
        await put(master, 1)
        await pair.equal(master, slave)
        syncing, flushed = asyncio.Event(), slave.store.flushed

        async def slow(log_offset):
            await syncing.wait()
            await flushed(log_offset)

        monkeypatch.setattr(slave.store, "flushed", slow)
        start = end(slave)
        for _ in range(40):
            await put(master, 10, 10_000)
            await pair.world.clock.sleep(0.01)
        await pair.world.clock.sleep(1)
        assert 100_000 < end(slave) - start < 2_000_000 < 4_000_000 < end(master)
        assert replicas(master)[0].acked == start
        syncing.set()
        await pair.equal(master, slave)
        await pair.until(lambda: replicas(master)[0].acked == end(master), "report")

    simulate_pair(main)


def test_both_sides_poll_between_records_that_come_one_by_one(monkeypatch):
    seen = {}

    class Poll:
        def __init__(self, world, window_s):
            assert window_s == 0.0003

        def happened(self, peer, began_s, ended_s, *, alone):
            assert began_s <= ended_s
            seen.setdefault(type(peer).__name__, []).append(alone)

    monkeypatch.setattr("gantrymq_replication.master.BusyPoll", Poll)
    monkeypatch.setattr("gantrymq_replication.appending.BusyPoll", Poll)

    async def main(pair):
        master = await pair.master(**SYNC, flushDiskType="ASYNC_FLUSH")
        slave = await pair.slave(master, flushDiskType="ASYNC_FLUSH")
        await pair.until(lambda: replicas(master), "report")
        await outcome(master)
        await pair.equal(master, slave)
        seen.clear()
        await outcome(master)
        await outcome(master)
        alone = {name: list(each) for name, each in seen.items()}
        seen.clear()
        await asyncio.gather(*(outcome(master) for _ in range(5)))
        return alone, seen

    alone, together = simulate_pair(main)
    assert alone == {"LogSending": [True] * 4, "LogAppending": [True] * 2}
    assert False in together["LogAppending"] and False in together["LogSending"]


def test_records_that_come_one_by_one_are_synced_by_the_event_loops_of_both_sides(monkeypatch):
    pytest.importorskip("gantrymq_storage_mmap")
    from gantrymq_storage_mmap.store import MmapStore  # an optional plugin

    syncs, sync_now = [], MmapStore.sync_now

    def noted(store, log_offset, *, alone):
        syncs.append((store, done := sync_now(store, log_offset, alone=alone)))
        return done

    monkeypatch.setattr(MmapStore, "sync_now", noted)

    async def main(pair):
        master = await pair.master(**SYNC, flushDiskType="SYNC_FLUSH")
        slave = await pair.slave(master, flushDiskType="SYNC_FLUSH")
        await pair.until(lambda: replicas(master), "report")
        for _ in range(30):
            assert (await outcome(master))[0] == 0
            ends = [each.broker.store.state().flushed_offset for each in (master, slave)]
            assert ends == [end(master)] * 2
        single = [done for store, done in syncs if store is slave.broker.store]
        syncs.clear()
        await asyncio.gather(*(outcome(master) for _ in range(20)))
        await pair.equal(master, slave)
        return single, [store is slave.broker.store for store, _ in syncs]

    single, together = simulate_pair(main)
    assert len(single) > 15 and all(single[-10:]), "each is synced when it is reported"
    assert True not in together, "group commit, as before"


def test_two_slaves_and_one_that_comes_back():
    async def main(pair):
        master = await pair.master()
        first, second = await pair.slave(master, "one"), await pair.slave(master, "two", brokerId=2)
        await put(master, 100)
        await pair.equal(master, first)
        await pair.equal(master, second)
        await first.stop()
        await put(master, 300)
        await pair.equal(master, second)
        await first.start()
        took = await pair.until(lambda: following(first) and end(first) == end(master), "rejoin")
        assert took < 1, "RocketMQ takes 5 s"
        assert await pair.until(lambda: [each.acked for each in replicas(master)] == [end(master)] * 2, "reports") < 1
        await pair.equal(master, first)

    simulate_pair(main)


def test_a_slave_connects_again_when_its_master_is_back():
    async def main(pair):
        master = await pair.master(haListenPort=20000)
        slave = await pair.slave(master)
        await put(master, 50)
        await pair.equal(master, slave)
        for _ in range(3):
            await master.restart()
            await put(master, 50)
            await pair.equal(master, slave, 5)

    simulate_pair(main)


def test_a_new_slave_gets_the_oldest_file_or_with_a_setting_the_newest():
    async def main(pair):
        master = await pair.master(syncFromLastFile=True)
        await put(master, 400)
        slave = await pair.slave(master)
        await pair.until(lambda: end(slave) == end(master), "copy")
        low, data = await log_of(slave)
        assert low == end(master) - end(master) % 65536 > 0
        assert (await log_of(master))[1].endswith(data)

    simulate_pair(main)


def test_a_first_record_that_arrives_slowly_is_waited_for():
    """A slave whose log is empty begins at the master's third file, with half a record for longer than a heartbeat."""

    async def main(pair):
        master = await pair.master()
        await put(master, 400)
        start = end(master) - end(master) % 65536
        _, data = await log_of(master, start)
        pieces, reports = [data[:300], data[300:]], []

        async def serve(reader, writer):
            reports.append(await reader.readexactly(8))
            for number, piece in enumerate(pieces):
                place = start + sum(map(len, pieces[:number]))
                writer.write(place.to_bytes(8, "big") + len(piece).to_bytes(4, "big") + piece)
                reports.append(await reader.readexactly(8))
                await pair.world.clock.sleep(7)
            await reader.read()

        await pair.world.network.listen(
            "127.0.0.1", 20000, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)
        )
        slave = await pair.slave("127.0.0.1:20000")
        await pair.until(lambda: end(slave) == end(master), "copy")
        assert [int.from_bytes(each, "big") for each in reports] == [0, start, start]  # one connection

    simulate_pair(main)


# --- acknowledgements ------------------------------------------------------------------------------------------------


def test_sync_master_answers_after_the_slave_has_the_message():
    async def main(pair):
        master = await pair.master(**SYNC)
        await pair.world.clock.sleep(11)  # slaves are waited for after the start
        code, seconds = await outcome(master)
        assert code == SlaveNotAvailable.response_code and seconds < 1
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        for _ in range(10):
            code, seconds = await outcome(master)
            assert (code, end(slave)) == (0, end(master)) and seconds < 1

    simulate_pair(main)


@pytest.mark.parametrize("down_s", [0, 9.3, 60])
def test_a_restarted_sync_master_waits_for_its_slave(down_s):
    async def main(pair):
        fixed = {**SYNC, "haListenPort": 20912, "slaveTimeout": 1000}
        master = await pair.master(**fixed)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await master.stop()
        await pair.world.clock.sleep(down_s)
        master = await pair.master(**fixed)
        assert not replicas(master)
        for _ in range(3):
            code, seconds = await outcome(master)
            assert (code, end(slave)) == (0, end(master)) and seconds < 1

    simulate_pair(main)


def test_a_starting_sync_master_without_slaves_answers_after_slave_timeout():
    async def main(pair):
        master = await pair.master(**SYNC, slaveTimeout=1000)
        code, seconds = await outcome(master)
        assert code == FlushSlaveTimeout.response_code and 0.9 < seconds < 1.1

    simulate_pair(main)


def test_a_sync_master_warns_once_when_its_slaves_are_too_few(caplog):
    def told():
        return [
            each.levelname for each in caplog.records if "enough slaves" in each.message or "too few" in each.message
        ]

    async def main(pair):
        caplog.set_level("INFO", "gantrymq.replication")
        master = await pair.master(**SYNC)
        await pair.world.clock.sleep(9)
        assert told() == []  # it may take a while until they connect
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await pair.world.clock.sleep(9)
        assert told() == []
        await slave.stop()
        await pair.until(told, "warning", 1)
        await pair.world.clock.sleep(9)
        assert told() == ["WARNING"]
        assert "0 are connected; inSyncReplicas=2 needs 1" in caplog.text and "SLAVE_NOT_AVAILABLE" in caplog.text
        await pair.slave(master)
        await pair.until(lambda: len(told()) > 1, "the end of it")
        await pair.world.clock.sleep(1)
        assert told() == ["WARNING", "INFO"]
        assert "answered with 0" not in caplog.text  # it has connected, and may have acknowledged nothing yet
        await master.stop()
        assert told() == ["WARNING", "INFO"]

    simulate_pair(main)


def test_a_slave_that_reads_but_never_acknowledges_is_late():
    async def main(pair):
        master = await pair.master(**SYNC, slaveTimeout=2000)
        _, writer = await pair.connect(master)
        writer.write(bytes(8))
        await pair.until(lambda: replicas(master), "a slave")
        code, seconds = await outcome(master)
        assert code == FlushSlaveTimeout.response_code and 1.9 < seconds < 2.1
        sends = [asyncio.ensure_future(outcome(master)) for _ in range(5)]
        await pair.world.clock.sleep(0.5)
        sends += [asyncio.ensure_future(outcome(master)) for _ in range(5)]
        for code, seconds in await asyncio.gather(*sends):  # each has its own time limit
            assert code == FlushSlaveTimeout.response_code and 1.9 < seconds < 2.1
        writer.close()

    simulate_pair(main)


def test_a_master_that_stops_acknowledges_nothing_that_no_slave_has():
    async def main(pair):
        master = await pair.master(**SYNC)
        _, writer = await pair.connect(master)
        writer.write(bytes(8))
        await pair.until(lambda: replicas(master), "a slave")
        send = asyncio.ensure_future(outcome(master))
        await pair.world.clock.sleep(1)
        await master.stop()
        assert (await send)[0] == FlushSlaveTimeout.response_code
        writer.close()

    simulate_pair(main)


@pytest.mark.parametrize("settings", [{"haFlowControlEnable": True, "maxHaTransferByteInSecond": 60_000}, SYNC])
def test_a_slave_has_everything_when_its_master_has_stopped(settings):
    async def main(pair):
        master = await pair.master(flushDiskType="ASYNC_FLUSH", **settings)
        slave = await pair.slave(master, flushDiskType="ASYNC_FLUSH")
        await put(master, 1)
        await pair.equal(master, slave)
        ends = []
        master.broker.messages.on_appended(ends.append)
        sends = [asyncio.ensure_future(outcome(master)) for _ in range(500)]
        await pair.world.clock.sleep(0)
        await master.stop()
        assert {code for code, _ in await asyncio.gather(*sends)} == {0}
        assert end(slave) == ends[-1] > 100_000

    simulate_pair(main)


def test_a_late_slave_does_not_hold_up_what_another_one_has():
    async def main(pair):
        master = await pair.master(**SYNC)
        _, writer = await pair.connect(master)
        writer.write(bytes(8))
        slave = await pair.slave(master)
        await put(master, 10)
        await pair.equal(master, slave)
        assert len(replicas(master)) == 2
        for _ in range(5):
            code, seconds = await outcome(master)
            assert code == 0 and seconds < 1
        writer.close()

    simulate_pair(main)


def test_every_slave_in_sync_is_waited_for_with_all_ack():
    async def main(pair):
        master = await pair.master(**SYNC, allAckInSyncStateSet=True, haMaxTimeSlaveNotCatchup=4000)
        slave = await pair.slave(master)
        await put(master, 1)
        await pair.equal(master, slave)
        _, writer = await pair.connect(master)
        writer.write(end(master).to_bytes(8, "big"))
        await pair.until(lambda: len(replicas(master)) == 2, "two slaves")
        code, seconds = await outcome(master)
        assert code == FlushSlaveTimeout.response_code and 2.9 < seconds < 3.1
        await pair.world.clock.sleep(5)  # it is in sync no more
        assert (await outcome(master))[0] == 0
        writer.close()

    simulate_pair(main)


def test_messages_are_refused_while_too_few_copies_are_in_sync():
    async def main(pair):
        master = await pair.master(minInSyncReplicas=2)
        with pytest.raises(RequestRefused, match="in-sync replicas not enough: 1 in sync") as refused:
            await outcome(master)
        assert refused.value.response_code == 1 and end(master) == 0
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave), "slave")
        await pair.world.clock.sleep(1)
        assert (await outcome(master))[0] == 0
        await slave.stop()
        await pair.until(lambda: not replicas(master), "end of the slave")
        with pytest.raises(RequestRefused):
            await outcome(master)

    simulate_pair(main)


# --- logs that do not fit --------------------------------------------------------------------------------------------


async def diverged(pair, mine, common=50):
    """A master, and a store that had *common* messages of it and *mine* of its own, then the address of the master."""
    master = await pair.master(haListenPort=20000)
    slave = await pair.slave(master)
    await put(master, common)
    await pair.equal(master, slave)
    await slave.stop()
    alone = await pair.start("slave", brokerName="broker-b")
    await put(alone, mine, topic="Own")
    before = await log_of(alone)
    await alone.stop()
    return master, before


@pytest.mark.parametrize(
    ("mine", "its", "sentence"), [(5, 0, "this log ends at"), (5, 9, "differs"), (9, 5, "differs")]
)
def test_a_log_that_is_longer_or_different_is_refused_and_kept(mine, its, sentence):
    async def main(pair):
        master, before = await diverged(pair, mine)
        await put(master, its)
        slave = await pair.slave(master)
        await pair.until(lambda: sentence in problem(slave), "refusal")
        own = end(slave) if sentence == "this log ends at" else 0
        place = end(master) if own else int(problem(slave).partition("differs from the master's at ")[2].split()[0])
        assert f"the last copies: 'gantrymq store extract DIR --from-log-offset {place}' prints them" in problem(slave)
        assert "Keep a copy of its store folder, then start it as the master, or with an empty" in problem(slave)
        await put(master, 20)
        await pair.until(lambda: "differs" in problem(slave), "refusal", 60)
        assert await log_of(slave) == before and not following(slave)

    simulate_pair(main)


def test_a_copy_whose_place_is_deleted_is_told_so():
    async def main(pair):
        master = await pair.master()
        await put(master, 100)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await slave.stop()
        await put(master, 600)
        for each in sorted(pair.world.files.list(Path("/master/store/commitlog")))[:3]:
            pair.world.files.remove(Path("/master/store/commitlog") / each)
        await master.stop()
        pair.world.files.remove(Path("/master/store/checkpoint"))
        await master.start()
        assert master.store.raw_log.log_range().min_offset == 3 * 65536
        slave = await pair.slave(master)
        await pair.until(lambda: "before it sent anything" in problem(slave), "refusal")

    simulate_pair(main)


def test_another_size_of_log_files_is_refused():
    async def main(pair):
        master = await pair.master()
        await put(master, 300)
        slave = await pair.slave(master, mappedFileSizeCommitLog=131072)
        await pair.until(lambda: "mappedFileSizeCommitLog" in problem(slave), "refusal")

    simulate_pair(main)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"brokerRole": "SLAVE"}, "brokerRole=SLAVE with brokerId=0"),
        ({"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": "nowhere"}, "haMasterAddress: 'nowhere'"),
        ({"haListenPort": 20000}, "the HA port 20000 on 127.0.0.1 is taken"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(settings, sentence):
    async def main(pair):
        await pair.world.network.listen("127.0.0.1", 20000, asyncio.Protocol)
        with pytest.raises(ConfigError, match=sentence):
            await pair.start("x", **settings)

    simulate_pair(main)


def test_a_slave_learns_its_master_from_the_name_server():
    async def main(pair):
        master = await pair.master()
        await put(master, 10)
        slave = await pair.start("slave", master.namesrv, brokerRole="SLAVE", brokerId=1)
        await pair.equal(master, slave, 1)
        assert slave.broker.registration.broker_id == 1

    simulate_pair(main)


def test_a_slave_that_is_first_finds_its_master_soon():
    async def main(pair):
        names = await pair.start("names", brokerName="broker-x")
        slave = await pair.start("slave", names.namesrv, brokerRole="SLAVE", brokerId=1)
        await pair.world.clock.sleep(5)
        master = await pair.start("master", names.namesrv)
        await put(master, 10)
        await pair.equal(master, slave, 3)  # RocketMQ: up to 30 s

    simulate_pair(main)


# --- stops that are not clean ----------------------------------------------------------------------------------------


async def killed_slave(pair, damage):
    """A master and a slave that was killed; *damage* changes a log file, from an offset after the durable mark on."""
    master = await pair.master(mappedFileSizeCommitLog=1 << 20)
    await put(master, 100)
    process = pair.process("10.0.0.9")
    slave = Cluster(process.world, Path("/slave"), {**SETTINGS, **slave_of(master), "mappedFileSizeCommitLog": 1 << 20})
    await process.run(slave.start())
    await pair.equal(master, slave)
    await pair.world.clock.sleep(1.5)
    mark = int(pair.world.files.read(Path("/slave/store/plugins/replication/durable")))
    assert mark == end(master)
    await put(master, 100)
    await pair.equal(master, slave)
    process.kill()
    log = Path("/slave/store/commitlog/00000000000000000000")
    data = bytearray(pair.world.files.read(log))
    damage(data, mark)
    pair.world.files.replace(log, bytes(data))
    return master, mark


def blank_out(data, mark):
    """Zero a page, as a power cut leaves one that was never written."""
    data[mark + 9000 : mark + 12_000] = bytes(3000)


def test_a_copy_that_lost_pages_in_a_power_cut_is_mended():
    async def main(pair):
        master, _ = await killed_slave(pair, blank_out)
        slave = await pair.slave(master, mappedFileSizeCommitLog=1 << 20)
        await pair.equal(master, slave)
        await put(master, 10)
        await pair.equal(master, slave)

    simulate_pair(main)


def test_a_lost_connection_does_not_end_the_truncation_of_a_copy(monkeypatch):
    async def main(pair):
        truncate, outcomes = StoreWithRawLog.truncate, []

        async def slowly(log, log_offset):
            outcomes.append("begun")
            await pair.world.clock.sleep(6)  # a report is due meanwhile
            await truncate(log, log_offset)
            outcomes.append("done")

        monkeypatch.setattr(StoreWithRawLog, "truncate", slowly)
        master, _ = await killed_slave(pair, blank_out)
        slave = await pair.slave(master, mappedFileSizeCommitLog=1 << 20)
        await pair.until(lambda: outcomes, "truncation")
        for connection in [*service(master, MasterService).port.connections]:
            connection.abort("the test")
        await pair.equal(master, slave)
        assert outcomes == ["begun", "done"]

    pytest.importorskip("gantrymq_storage_mmap")
    from gantrymq_storage_mmap.raw_log import StoreWithRawLog  # an optional plugin

    simulate_pair(main)


def test_a_killed_copy_goes_on_where_it_was():
    async def main(pair):
        master, _ = await killed_slave(pair, lambda data, mark: None)
        slave = await pair.slave(master, mappedFileSizeCommitLog=1 << 20)
        await put(master, 10)
        await pair.equal(master, slave)

    simulate_pair(main)


def test_an_unclean_log_that_differs_before_the_mark_is_refused():
    async def main(pair):
        def damage(data, mark):
            blank_out(data, mark - 13_000)

        master, _ = await killed_slave(pair, damage)
        slave = await pair.slave(master, mappedFileSizeCommitLog=1 << 20)
        await pair.until(lambda: "this log is damaged at" in problem(slave), "refusal")
        assert "gantrymq store repair" in problem(slave) and not following(slave)

    simulate_pair(main)


def test_a_master_that_becomes_a_slave_has_no_mark():
    async def main(pair):
        master = await pair.master()
        slave = await pair.slave(master)
        await put(master, 10)
        await pair.equal(master, slave)
        await pair.world.clock.sleep(1.5)
        mark = Path("/slave/store/plugins/replication/durable")
        assert pair.world.files.stat(mark) is not None
        await slave.stop()
        await pair.start("slave", brokerName="broker-b")
        assert pair.world.files.stat(mark) is None

    simulate_pair(main)


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificates(tmp_path):
    """Settings of a master that requires certificates of its authority, and of a slave with one."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    for name, authority in (("authority", ""), ("master", "authority"), ("slave", "authority"), ("stranger", "")):
        make_certificate(tmp_path, name, authority=authority)
    paths = {name: str(tmp_path / name) for name in ("authority", "master", "slave", "stranger")}
    server = {
        "haTlsEnable": True,
        "tls.server.certPath": paths["master"] + ".pem",
        "tls.server.keyPath": paths["master"] + ".key",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": True,
        "tls.server.trustCertPath": paths["authority"] + ".pem",
    }

    def client(name):
        return {
            "haTlsEnable": True,
            "tls.client.certPath": f"{paths[name]}.pem",
            "tls.client.keyPath": f"{paths[name]}.key",
            "tls.client.authServer": True,
            "tls.client.trustCertPath": paths["authority"] + ".pem",
        }

    return server, client


def test_http_requests_to_a_tls_port_count_as_no_slave(certificates, caplog):
    server, client = certificates

    async def main(pair):
        master = await pair.master(**server)
        reader, writer = await pair.connect(master)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        _, silent = await pair.connect(master)  # nothing is heard of it
        refusals = service(master, MasterService).port.refusals
        assert refusals.count == 0
        await pair.until(lambda: refusals.count == 1, "end of the silent connection", 11)
        slave = await pair.slave(master, **client("slave"))
        await pair.equal(master, slave)
        silent.close()

    caplog.set_level("INFO")
    simulate_pair(main)
    assert caplog.text.count("sent an HTTP request; it is closed") == 1


def test_a_log_is_copied_over_tls_by_those_with_a_certificate(certificates, caplog):
    server, client = certificates

    async def main(pair):
        master = await pair.master(**server)
        await put(master, 300)
        slave = await pair.slave(master, **client("slave"))
        await pair.equal(master, slave)
        stranger = await pair.slave(master, "stranger", **client("stranger"))
        plain = await pair.slave(master, "plain")
        await pair.until(lambda: "it sent" in problem(plain) or "before it sent" in problem(plain), "refusal")
        await pair.world.clock.sleep(10)
        assert end(stranger) == end(plain) == 0 and len(replicas(master)) == 1
        await put(master, 10)
        await pair.equal(master, slave)

    simulate_pair(main)
    assert "to the HA port is refused: the TLS handshake failed" in caplog.text


def test_a_slave_with_tls_refuses_a_master_without(certificates):
    async def main(pair):
        master = await pair.master()
        slave = await pair.slave(master, **certificates[1]("slave"))
        await put(master, 10)
        await pair.world.clock.sleep(20)
        assert end(slave) == 0 and "master" in problem(slave)

    simulate_pair(main)


def test_a_log_is_copied_over_tls_by_those_who_also_know_a_secret(certificates):
    server, client = certificates

    async def main(pair):
        pair.world.files.replace(Path("/secret"), b"secret of the cluster")
        secret = {"haSecretPath": "/secret"}
        master = await pair.master(**server, **secret)
        await put(master, 300)
        slave = await pair.slave(master, **client("slave"), **secret)
        await pair.equal(master, slave)
        without = await pair.slave(master, "without", **client("slave"))
        await pair.until(lambda: "set haSecretPath here too" in problem(without), "refusal")
        assert end(without) == 0

    simulate_pair(main)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"inSyncReplicas": 2}, ["inSyncReplicas has no effect with brokerRole=ASYNC_MASTER"]),
        ({"allAckInSyncStateSet": True}, ["allAckInSyncStateSet has no effect with brokerRole=ASYNC_MASTER"]),
        ({"brokerRole": "SYNC_MASTER"}, ["brokerRole=SYNC_MASTER waits for no slave while inSyncReplicas is 1"]),
        (SYNC, []),
        ({}, []),
    ],
)
def test_settings_without_an_effect_are_told(settings, told, caplog):
    async def main(pair):
        await pair.master(**settings)

    simulate_pair(main)
    found = [each.getMessage() for each in caplog.records if "no effect" in each.message or "no slave" in each.message]
    assert [text.startswith(start) for text, start in zip(found, told, strict=True)] == [True] * len(told)
