"""Faults of the simulated network: late, slow, parted, refused and cut connections, the same ones for a seed."""

import asyncio
import random

import pytest

from gantrymq_testing.simulated import FaultyDelivery, simulate

HOST, OTHER = "10.0.0.1", "10.0.0.2"


class Peer(asyncio.Protocol):
    def __init__(self):
        self.got, self.lost, self.times = b"", [], []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        self.times.append(asyncio.get_running_loop().time())

    def connection_lost(self, exc):
        self.lost.append(exc)


def run(main, seed=1, late=0.0):
    """Run ``main(faults, network, server)``: *server* listens on HOST."""
    faults = FaultyDelivery(random.Random(seed), late=late)

    async def begin(world):
        faults.attach(world.network, asyncio.get_running_loop().time)
        server = Peer()
        await world.network.on_host(HOST).listen(HOST, 80, lambda: server)
        return await main(faults, world.network.on_host(OTHER), server)

    return simulate(seed, begin, delivery=faults)


async def connected(network):
    transport, peer = await network.connect(HOST, 80, Peer)
    return transport, peer


def test_a_partition_holds_bytes_back_until_it_is_over():
    async def main(faults, network, server):
        transport, _ = await connected(network)
        await asyncio.sleep(1)
        faults.part(HOST, OTHER, 5)
        transport.write(b"after all")
        await asyncio.sleep(10)
        assert server.got == b"after all"
        assert server.times[0] >= 6

    run(main)


def test_a_partition_concerns_two_hosts_only():
    async def main(faults, network, server):
        faults.part(HOST, OTHER, 5)
        await network.on_host("10.0.0.3").connect(HOST, 80, Peer)
        return asyncio.get_running_loop().time()

    assert run(main) < 0.1


def test_a_partition_may_concern_one_direction_only():
    async def main(faults, network, server):
        transport, peer = await connected(network)
        await asyncio.sleep(1)
        faults.part(HOST, OTHER, 5, one_way=True)
        transport.write(b"there")
        server.transport.write(b"back")
        await asyncio.sleep(10)
        assert (server.got, peer.got) == (b"there", b"back")
        assert server.times[0] < 1.1
        assert peer.times[0] >= 6

    run(main)


def test_a_refusing_host_takes_no_connections_for_a_while():
    async def main(faults, network, server):
        transport, _ = await connected(network)
        faults.refuse(HOST, 2)
        with pytest.raises(ConnectionRefusedError):
            await connected(network)
        transport.write(b"x")
        await asyncio.sleep(3)
        assert server.got == b"x"
        await connected(network)

    run(main)


def test_a_slow_host_trickles():
    async def main(faults, network, server):
        transport, _ = await connected(network)
        faults.slow_down(OTHER, 60)
        transport.write(bytes(20_000))
        await asyncio.sleep(60)
        assert len(server.got) == 20_000
        assert len(server.times) >= 10

    run(main)


def test_a_cut_resets_both_ends_and_lets_a_beginning_through():
    async def main(faults, network, server):
        transport, peer = await connected(network)
        data = random.Random(1).randbytes(200_000)
        transport.write(data)
        assert faults.cut_some(1.0) == 1
        await asyncio.sleep(1)
        assert [type(error) for error in (*peer.lost, *server.lost)] == [ConnectionResetError] * 2
        assert data.startswith(server.got)
        assert faults.cut_some(1.0) == 0
        return len(server.got)

    sizes = [run(main, seed) for seed in (1, 2, 3)]
    assert len(set(sizes)) == 3
    assert sizes == [run(main, seed) for seed in (1, 2, 3)]


def test_late_bytes_keep_their_order():
    async def main(faults, network, server):
        transport, _ = await connected(network)
        for number in range(100):
            transport.write(b"%02d" % number)
            await asyncio.sleep(0.01)
        await asyncio.sleep(60)
        assert server.got == b"".join(b"%02d" % number for number in range(100))
        return asyncio.get_running_loop().time()

    run(main, late=0.5)


def test_repair_ends_everything():
    async def main(faults, network, server):
        faults.part(HOST, OTHER, 500)
        faults.refuse(HOST, 500)
        faults.slow_down(HOST, 500)
        faults.heal()
        await connected(network)
        return asyncio.get_running_loop().time()

    assert run(main) < 0.1
