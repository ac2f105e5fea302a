"""Connections to the HA port that report nothing take no places of slaves."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from ha_pairs import end, following, ha_address, put, replicas, service, simulate_pair

from gantrymq_replication.ha_port import MOST_SLAVES
from gantrymq_replication.master import MasterService


async def strangers(pair, master, count, host="10.9.9.9"):
    """Connections of *host* that say nothing, and whether each has ended."""
    process, ends = pair.process(host), []
    name, port = ha_address(master).rsplit(":", 1)

    class Stranger(asyncio.Protocol):
        def connection_made(self, transport):
            self.number = len(ends)
            ends.append(False)

        def connection_lost(self, exc):
            ends[self.number] = True

    for _ in range(count):
        await process.run(process.world.network.connect(name, int(port), Stranger))
    return ends


def test_a_slave_gets_a_place_among_silent_connections(caplog):
    async def main(pair):
        master = await pair.master()
        await put(master, 5)
        ends = await strangers(pair, master, 3 * MOST_SLAVES)
        await pair.world.clock.sleep(0.1)
        assert ends.count(False) == MOST_SLAVES and ends[-1] is False
        slave = await pair.slave(master)
        await pair.equal(master, slave, 2)
        more = await strangers(pair, master, 2 * MOST_SLAVES)
        await pair.world.clock.sleep(0.1)
        assert following(slave) and replicas(master)
        await put(master, 5)
        await pair.until(lambda: end(slave) == end(master), "copy", 1)
        await pair.world.clock.sleep(10)
        assert all(ends) and all(more) and following(slave)

    simulate_pair(main)
    gone = [
        each.getMessage()
        for each in caplog.records
        if "is gone" in each.getMessage() and "10.9.9.9" in each.msg % each.args
    ]
    assert len(gone) == 1 and "it reported nothing within 10 s" in gone[0]


def test_a_slave_that_has_not_reported_yet_keeps_its_place_before_many_of_another_host():
    """RocketMQ's slaves report after 5 s."""

    async def main(pair):
        master = await pair.master()
        late = await strangers(pair, master, 1, "10.0.0.2")
        await pair.world.clock.sleep(1)
        ends = await strangers(pair, master, 2 * MOST_SLAVES)
        await pair.world.clock.sleep(5)
        assert late == [False] and ends.count(False) == MOST_SLAVES - 1

    simulate_pair(main)


def test_no_slave_loses_its_place_to_another_one(monkeypatch, caplog):
    monkeypatch.setattr("gantrymq_replication.ha_port.MOST_SLAVES", 2)

    async def main(pair):
        master = await pair.master()
        slaves = [await pair.slave(master, f"slave{number}", brokerId=number) for number in (1, 2)]
        await pair.until(lambda: len(replicas(master)) == 2, "slaves")
        ends = await strangers(pair, master, 3)
        await pair.world.clock.sleep(0.1)
        assert all(ends) and all(map(following, slaves))
        assert service(master, MasterService).port.refusals.count == 3

    simulate_pair(main)
    refused = [each for each in caplog.records if "2 slaves are connected" in each.getMessage()]
    assert len(refused) == 1


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("secret", [False, True])
def test_http_requests_are_closed_and_count_as_no_slave(secret, caplog):
    async def main(pair):
        pair.world.files.replace(path := Path("/secret"), b"0123456789abcdef")
        master = await pair.master(**({"haSecretPath": str(path)} if secret else {}))
        for request in (REQUEST, REQUEST.replace(b"GET", b"HEAD"), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            reader, writer = await pair.connect(master)
            writer.write(request)
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
        await pair.until(lambda: caplog.text.count("sent an HTTP request; it is closed") == 3, "closed connections", 2)
        port = service(master, MasterService)
        assert port.port.refusals.count == 0 and port.replicas.departures.all == ()

    caplog.set_level("INFO")
    simulate_pair(main)
