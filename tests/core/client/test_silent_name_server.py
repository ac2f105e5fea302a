"""Several name servers of which some are silent, slow or away: the next one is asked after half a second."""

import asyncio

import pytest

from gantrymq.client import Client
from gantrymq.client.errors import NoNameServer
from gantrymq.client.routing.route_cache import SILENT_S
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def route_after(client, world):
    """Return how long the route of T took."""
    began = world.clock.monotonic()
    assert (await client.admin.route("T")).brokers
    return world.clock.monotonic() - began


@pytest.mark.parametrize("silent", [1, 2])
def test_a_silent_server_costs_half_a_second_once(simulate, cluster, peer, silent):
    async def work(world):
        async with cluster(world) as servers:
            others = [await peer(world, f"silent{number}", 9876).start() for number in range(silent)]
            for each in others:
                each.answers[ROUTE] = None
            async with Client(";".join([servers.namesrv, *(each.address for each in others)]), world=world) as client:
                client._started().routes._servers._shuffled = [*(each.address for each in others), servers.namesrv]
                client._started().routes._servers._index = silent  # the next is the first
                assert silent * SILENT_S <= await route_after(client, world) < silent * SILENT_S + 0.1
                assert await route_after(client, world) < 0.1
                assert [len(each.of(ROUTE)) for each in others] == [1] * silent
            for each in others:
                await each.stop()

    simulate(work)


def test_a_slow_server_is_waited_for_while_the_other_is_away(simulate, cluster):
    async def work(world):
        async with cluster(world) as servers:
            route = servers.ns.answers[ROUTE]
            servers.ns.answers[ROUTE] = None

            async def answer_late():
                while not servers.ns.of(ROUTE):
                    await world.clock.sleep(0.05)
                await world.clock.sleep(1)
                (asked,) = servers.ns.of(ROUTE)
                found = route(asked)
                servers.ns.connections[-1].reply(asked, Command(0, body=found.payload))

            late = asyncio.ensure_future(answer_late())
            async with Client(f"{servers.namesrv};away:9876", world=world) as client:
                client._started().routes._servers._chosen = servers.namesrv
                assert 0.9 < await route_after(client, world) < 1.5
            await late

    simulate(work)


def test_servers_that_all_are_silent_fail_together(simulate, cluster, peer):
    async def work(world):
        async with cluster(world) as servers:
            servers.ns.answers[ROUTE] = None
            other = await peer(world, "silent", 9876).start()
            other.answers[ROUTE] = None
            async with Client(f"{servers.namesrv};silent:9876", world=world) as client:
                began = world.clock.monotonic()
                with pytest.raises(NoNameServer):
                    await client.admin.route("T")
                assert world.clock.monotonic() - began < 12
            await other.stop()

    simulate(work)


def test_a_caller_that_gives_up_leaves_nothing_behind(simulate, cluster, peer):
    async def work(world):
        async with cluster(world) as servers:
            servers.ns.answers[ROUTE] = None
            async with Client(f"{servers.namesrv};away:9876", world=world) as client:
                asking = asyncio.ensure_future(client.admin.route("T"))
                await world.clock.sleep(0.7)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

    simulate(work)
