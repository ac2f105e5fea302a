"""TLS in an in-memory world: reads of any size, virtual time, no socket."""

import asyncio
import shutil

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConnectFailed
from gantrymq.remoting.admission import ADMISSION_SETTINGS, admission_of
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.limits import Limits
from gantrymq.remoting.server import RemotingServer
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq_testing.simulated import simulate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


class Echo:
    def requests(self, connection, commands):
        for command in commands:
            connection.reply(command, Command(0, body=command.body))


def server_of(world, certificates):
    values = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": certificates.server,
        "tls.server.keyPath": certificates.key(certificates.server),
    }
    return RemotingServer(
        world, Echo(), admission=admission_of(Settings(ADMISSION_SETTINGS, values), world.clock, world.files)
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_calls_of_many_sizes(certificates, seed):
    async def traffic(world):
        server = server_of(world, certificates)
        address = "{}:{}".format(*await server.start("10.0.0.1", 10911))
        clients = [RemotingClient(world, tls=TlsClient()) for _ in range(3)]
        bodies = [bytes([n]) * (n * 9973) for n in range(1, 20)]

        async def use(client):
            return [(await client.call(address, request(100, body=body))).body for body in bodies]

        assert await asyncio.gather(*[use(client) for client in clients for _ in range(3)]) == [bodies] * 9
        assert len(server.connections) == 3
        for client in clients:
            await client.close()
        await server.stop()

    simulate(seed, traffic)


def test_a_server_that_never_answers_the_hello_costs_the_connect_timeout(certificates):
    async def main(world):
        listener = await world.network.listen("10.0.0.1", 10911, asyncio.Protocol)
        client = RemotingClient(world, tls=TlsClient(), limits=Limits(connect_timeout_s=3))
        began = world.clock.monotonic()
        with pytest.raises(ConnectFailed, match="no connection within 3 s"):
            await client.call("10.0.0.1:10911", request(10))
        assert world.clock.monotonic() - began < 4
        await client.close()
        await listener.close()

    simulate(1, main)
