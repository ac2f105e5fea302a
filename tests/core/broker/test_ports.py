"""The two ports of a broker, and when they serve."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from broker_desk import START_MS, send_header, settings_for

from gantrymq.broker import BrokerServer
from gantrymq.errors import ConfigError, ConnectFailed
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_testing.simulated import simulate


def started(plugins, case, **values):
    """Run ``await case(world, server)`` with a running broker."""

    async def main(world):
        server = BrokerServer(world, settings_for(plugins, **values), plugins)
        await server.start()
        try:
            await case(world, server)
        finally:
            await server.stop()
            await world.workers.close()

    simulate(1, main, start_ms=START_MS)


async def send(world, address):
    client = RemotingClient(world)
    try:
        connection = await client.connect(address)
        return await connection.call(request(310, send_header("T").to_ext_v2(), b"body"), 60.0)
    finally:
        await client.close()


@pytest.mark.parametrize("port", [10911, 0])
def test_the_fast_port_serves_what_the_other_does(plugins, port):
    async def case(world, server):
        assert (await send(world, f"10.0.0.1:{server.identity.port - 2}")).ext["queueOffset"] == "0"
        assert (await send(world, f"10.0.0.1:{server.identity.port}")).ext["queueOffset"] == "1"

    started(plugins, case, listenPort=port)


def test_it_can_be_turned_off(plugins):
    async def case(world, server):
        with pytest.raises(ConnectFailed):
            await send(world, "10.0.0.1:10909")

    started(plugins, case, fastPortEnable="false")


def test_one_that_is_taken_is_told_and_the_first_port_is_free_again(plugins):
    async def case(world, server):
        other = BrokerServer(world, settings_for(plugins, storePathRootDir="/two", listenPort=10913), plugins)
        with pytest.raises(ConfigError, match=r"port 10911 .*listenPort - 2.* is taken .* --set fastPortEnable=false"):
            await other.start()
        other = BrokerServer(
            world, settings_for(plugins, storePathRootDir="/two", listenPort=10913, fastPortEnable="false"), plugins
        )
        await other.start()
        await other.stop()

    started(plugins, case)


def test_nobody_is_served_before_every_service_has_started(plugins):
    asked = []

    class Slow:
        name = "slow"

        async def start(self, broker):
            self.task = asyncio.ensure_future(send(broker.world, "10.0.0.1:10911"))
            await broker.world.clock.sleep(5.0)
            asked.append(("served while it starts", self.task.done(), broker.topics.get("T")))

        async def stop(self):
            pass

    slow = Slow()

    async def case(world, server):
        assert asked == [("served while it starts", False, None)]
        assert (await slow.task).code == 0

    started(attrs.evolve(plugins, services=(slow,)), case)
