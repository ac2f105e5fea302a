"""A server started with *held*: clients connect, and their requests are served in order after `release`."""

import asyncio
import importlib.util

import pytest

from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command
from gantrymq.remoting.server import RemotingServer
from gantrymq.world.real import real_world
from gantrymq_testing.simulated import simulate


def on_asyncio(work):
    asyncio.run(work(real_world()))


def on_uvloop(work):
    import uvloop

    uvloop.run(work(real_world()))


class Handler:
    def __init__(self):
        self.ready = False
        self.asked = []

    def requests(self, connection, commands):
        for command in commands:
            self.asked.append((self.ready, command.body))
            connection.reply(command, Command(0, body=command.body))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(on_asyncio, id="asyncio"),
        pytest.param(
            on_uvloop,
            id="uvloop",
            marks=pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"),
        ),
        pytest.param(lambda work: simulate(7, work), id="simulated"),
    ],
)
def test_what_is_asked_of_a_server_that_is_not_ready_waits(run):
    async def work(world):
        handler = Handler()
        server, client = RemotingServer(world, handler), RemotingClient(world)
        host, port = await server.start("127.0.0.1", 0, held=True)
        address, bodies = f"{host}:{port}", [b"%d" % number * 1000 for number in range(10)]
        calls = [asyncio.ensure_future(client.call(address, Command(11, body=body), 20.0)) for body in bodies]
        while not server.connections or client.connected(address) is None:
            await world.clock.sleep(0.01)
        await world.clock.sleep(0.3)  # more than the socket buffers of a peer on this machine hold
        assert not handler.asked
        handler.ready = True
        server.release()
        assert [(await call).body for call in calls] == bodies
        assert handler.asked == [(True, body) for body in bodies]
        await client.close()
        await server.stop()

    run(work)
