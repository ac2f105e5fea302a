"""Server and client in an in-memory world: a run repeats byte for byte, and virtual hours pass at once."""

import asyncio

import pytest

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.limits import Limits
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import Trace, simulate


class Service:
    """Echoes, some answers later than others; code 1 is never answered."""

    def __init__(self, world):
        self.world = world

    def requests(self, connection, commands):
        for command in commands:
            if command.code == 1:
                continue
            answer = Command(0, ext={"code": str(command.code)}, body=command.body)
            self.world.clock.call_later(self.world.random.random() / 10, connection.reply, command, answer)


async def traffic(world):
    server = RemotingServer(world, Service(world), limits=Limits(idle_timeout_s=120))
    address = "{}:{}".format(*await server.start("10.0.0.1", 10911))
    clients = [RemotingClient(world, serialize=n % 2) for n in range(3)]

    async def use(client):
        codes = []
        for n in range(20):
            answer = await client.call(address, request(100 + n, body=bytes(n * 997)))
            assert len(answer.payload) == n * 997
            codes.append(answer.ext["code"])
        return codes

    results = await asyncio.gather(*[use(client) for client in clients for _ in range(4)])
    assert results == [[str(100 + n) for n in range(20)]] * 12
    for client in clients:
        await client.close()
    await server.stop()


def test_a_seeded_run_repeats_byte_for_byte():
    digests = []
    for seed in (1, 1, 2):
        trace = Trace()
        simulate(seed, traffic, trace=trace)
        digests.append(trace.digest())
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_idle_connections_close_and_calls_time_out_in_virtual_time():
    async def main(world):
        server = RemotingServer(world, Service(world), limits=Limits(idle_timeout_s=120))
        address = "{}:{}".format(*await server.start("10.0.0.1", 10911))
        client = RemotingClient(world, limits=Limits(idle_timeout_s=0))
        begun = world.clock.monotonic()
        with pytest.raises(CallTimeout):
            await client.call(address, request(1), 3.0)
        assert 3.0 <= world.clock.monotonic() - begun < 3.2
        with pytest.raises(ConnectionLost):
            await client.call(address, request(1), 3600.0)
        assert 123.0 <= world.clock.monotonic() - begun < 123.5
        assert (await client.call(address, request(2))).code == 0
        await client.close()
        await server.stop()

    simulate(7, main)
