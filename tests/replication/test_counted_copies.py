"""Which reports of slaves confirm a message: none that proves nothing, and each slave once."""

import asyncio
from pathlib import Path

import pytest
from ha_pairs import end, following, problem, put, replicas, service, simulate_pair

from gantrymq.config import Settings
from gantrymq.errors import FlushSlaveTimeout
from gantrymq.interfaces import SendRequest
from gantrymq_replication.appending import LogAppending
from gantrymq_replication.log_comparison import OVERLAP_BYTES
from gantrymq_replication.master import MasterService
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.settings import SCHEMA, HaSettings
from gantrymq_replication.slave_log import SlaveLogs

SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
LOG = Path("/slave/store/commitlog/00000000000000000000")


async def sent(cluster, size=4):
    """The code of a send."""
    answer = await cluster.broker.messages.send(SendRequest("p", "Orders", bytes(size)))
    return answer.unconfirmed.response_code if answer.unconfirmed else 0


def report(log_offset):
    return log_offset.to_bytes(8, "big")


async def waiting(pair, **settings):
    """A master whose sends wait for a slave that never acknowledges, and some of these sends."""
    master = await pair.master(**{**SYNC, "slaveTimeout": 2500, **settings})
    await put(master, 5)
    _, writer = await pair.connect(master)
    writer.write(report(0))
    await pair.until(lambda: replicas(master), "a slave")
    sends = [asyncio.ensure_future(sent(master)) for _ in range(3)]
    await pair.world.clock.sleep(0.3)
    return master, sends, writer


def test_the_end_of_a_log_that_nothing_is_known_of_confirms_nothing():
    async def main(pair):
        master, sends, writer = await waiting(pair)
        _, stranger = await pair.connect(master)
        for _ in range(3):
            stranger.write(report(end(master)))
            await pair.world.clock.sleep(0.2)
        assert set(await asyncio.gather(*sends)) == {FlushSlaveTimeout.response_code}
        sends = [asyncio.ensure_future(sent(master)) for _ in range(2)]
        await pair.world.clock.sleep(0.2)
        stranger.write(report(end(master)))  # now it acknowledges what it was sent
        assert await asyncio.gather(*sends) == [0, 0]
        writer.close()
        stranger.close()

    simulate_pair(main)


def test_a_slave_with_another_log_confirms_nothing():
    async def main(pair):
        other = await pair.start("slave", brokerName="broker-b")
        await put(other, 125)
        other_end = end(other)
        await other.stop()
        master = await pair.master(**SYNC)
        _, writer = await pair.connect(master)
        writer.write(report(0))
        await pair.until(lambda: replicas(master), "a slave")
        sends = [asyncio.ensure_future(sent(master)) for _ in range(4)]
        await pair.world.clock.sleep(0.3)
        sends += [asyncio.ensure_future(sent(master, 700)) for _ in range(60)]
        await pair.world.clock.sleep(0.3)
        assert 4 * 300 < other_end - OVERLAP_BYTES < end(master)  # the slave first reports a place after some of them
        slave = await pair.slave(master)
        assert set(await asyncio.gather(*sends)) == {FlushSlaveTimeout.response_code}
        assert problem(slave) and not following(slave)
        writer.close()

    simulate_pair(main)


def test_a_slave_that_has_compared_confirms_what_waits():
    async def main(pair):
        master = await pair.master(**SYNC)
        slave = await pair.slave(master)
        await put(master, 300)
        await pair.equal(master, slave)
        for connection in [*service(master, MasterService).port.connections]:
            connection._reported = lambda: None  # its reports are lost
        send = asyncio.ensure_future(sent(master))
        await pair.until(lambda: end(slave) == end(master) > 0, "copy")
        await pair.world.clock.sleep(0.5)
        assert not send.done()
        for connection in [*service(master, MasterService).port.connections]:
            connection.abort("the test")
        assert await send == 0

    simulate_pair(main)


def test_a_slave_reports_nothing_of_a_comparison_that_has_begun(monkeypatch):
    reports = []
    write = LogAppending.report
    monkeypatch.setattr(LogAppending, "report", lambda self, offset: (reports.append(offset), write(self, offset)))

    async def main(pair):
        slave = await pair.slave("127.0.0.1:1")
        await slave.stop()
        alone = await pair.start("slave")
        await put(alone, 20)
        last = end(alone)
        await alone.stop()

        async def serve(reader, writer):
            start = int.from_bytes(await reader.readexactly(8), "big")
            data = pair.world.files.read(LOG)[start:last]
            writer.write(start.to_bytes(8, "big") + len(data).to_bytes(4, "big") + data[:5])
            await pair.world.clock.sleep(12)
            writer.write(data[5:])
            await reader.read()

        await pair.world.network.listen(
            "127.0.0.1", 20000, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)
        )
        slave = await pair.slave("127.0.0.1:20000")
        await pair.until(lambda: following(slave), "comparison", 20)
        await pair.world.clock.sleep(1)
        assert set(reports) == {1, last} and len(reports) >= 3

    simulate_pair(main)


@pytest.mark.parametrize("known", [True, False])
def test_a_slave_of_rocketmq_confirms_by_its_first_report_if_it_was_asked(known, monkeypatch):
    async def compare(self, peer, log_end):
        return known and log_end > 0

    monkeypatch.setattr(SlaveLogs, "compare", compare)

    async def main(pair):
        master, sends, writer = await waiting(pair)
        _, slave = await pair.connect(master)
        slave.write(report(end(master)))
        assert set(await asyncio.gather(*sends)) == {0 if known else FlushSlaveTimeout.response_code}
        writer.close()
        slave.close()

    simulate_pair(main)


# --- each slave once ------------------------------------------------------------------------------------------------


def known(**settings):
    return Replicas(HaSettings.of(Settings(SCHEMA, {**SYNC, **settings})))


def add(found, address, acked, now, end):
    replica = Replica(address, acked, now)
    found.add(replica, end)
    replica.acknowledge(acked, end, now)
    return replica


def test_two_connections_of_one_host_are_one_copy_until_both_have_what_came_since():
    found = known(inSyncReplicas=3)
    old = add(found, "10.0.0.2:1", 1000, 0.0, 1000)
    new = add(found, "10.0.0.2:2", 1000, 1.0, 1000)
    assert found.confirmed(1000, 1.0) == 0
    new.acknowledge(1200, 1200, 2.0)
    assert found.confirmed(1200, 2.0) == 0
    old.acknowledge(1100, 1200, 2.0)  # it lives, and is another slave
    assert found.confirmed(1200, 2.0) == 1100
    add(found, "10.0.0.3:1", 1150, 2.0, 1200)  # another host
    assert found.confirmed(1200, 2.0) == 1150


def test_an_old_connection_is_not_in_sync_unless_it_is_heard_of():
    found = known(minInSyncReplicas=3)
    old = add(found, "[::1]:1", 1000, 0.0, 1000)
    new = add(found, "[::1]:2", 1000, 1.0, 1000)
    assert found.in_sync(1000, 1.0) == [new] and "2 in sync" in found.shortage(1000, 1.0)
    old.acknowledge(1000, 1000, 5.0)  # a heartbeat
    assert found.in_sync(1000, 5.0) == [old, new]


def test_a_power_cut_of_a_slave_does_not_make_two_of_it():
    async def main(pair):
        master = await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=3, slaveTimeout=4000)
        _, writer = await pair.connect(master)
        writer.write(report(0))
        slave = await pair.slave(master)
        await pair.until(lambda: len(replicas(master)) == 2, "slaves")
        send = asyncio.ensure_future(sent(master))
        await pair.until(lambda: end(master) and replicas(master)[1].acked == end(master), "report")
        mine = service(master, MasterService)
        old = replicas(master)[1]
        mine.replicas.remove = lambda replica: replica is old or Replicas.remove(mine.replicas, replica)
        await slave.stop()
        await slave.start()
        await pair.until(lambda: [each.acked for each in replicas(master)] == [0, end(master), end(master)], "reports")
        assert not send.done() and await send == FlushSlaveTimeout.response_code
        writer.close()

    simulate_pair(main)


# --- the end of a connection ------------------------------------------------------------------------------------------


def test_the_end_of_a_slave_lets_pass_what_waited_for_it_alone():
    async def main(pair):
        master, sends, writer = await waiting(pair, inSyncReplicas=1, allAckInSyncStateSet=True)
        assert await asyncio.gather(*sends) == [0, 0, 0]  # it was never in sync
        _, slave = await pair.connect(master)
        slave.write(report(end(master)))
        await pair.until(lambda: len(replicas(master)) == 2, "a slave in sync")
        send = asyncio.ensure_future(sent(master))
        await pair.world.clock.sleep(0.5)
        assert not send.done()
        slave.close()
        began = pair.world.clock.monotonic()
        assert await send == 0 and pair.world.clock.monotonic() - began < 0.5
        writer.close()

    simulate_pair(main)
