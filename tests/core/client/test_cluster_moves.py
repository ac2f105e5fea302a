"""Name servers: several, one dead, others at run time, host names."""

import asyncio

import pytest

from gantrymq.client import Client, ClientError, ConnectFailed, Message
from gantrymq.client.errors import OptionUnusable
from gantrymq.errors import ConfigError
from gantrymq.remoting.codes import RequestCode

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def another(peer, world, c, name):
    server = await peer(world, name, 9876).start()
    server.answers[ROUTE] = c._route
    return server


def test_a_dead_name_server_is_passed_by(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            for _ in range(5):
                async with Client(f"dead:9876;{c.namesrv}", world=world) as client, client.producer("P") as producer:
                    assert (await producer.send(Message("T", b"x"))).ok

    simulate(work)


def test_other_name_servers_at_run_time(simulate, cluster, peer):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            producer = client.producer("P")
            await producer.send(Message("T", b"x"))
            new = await another(peer, world, c, "new")
            client.set_name_servers("new:9876")
            assert producer.name_servers == client.name_servers == ("new:9876",)
            await world.clock.sleep(1)
            assert all(connection.closed for connection in c.ns.connections)
            await c.ns.stop()
            c.topics.add("Later")
            await producer.send(Message("Later", b"x"))
            assert new.of(ROUTE)
            await world.clock.sleep(31)  # the refresh
            assert len(new.of(ROUTE)) > 1
            await new.stop()

    simulate(work)


def test_a_look_up_under_way_goes_on_at_the_others(simulate, cluster, peer):
    async def work(world):
        async with cluster(world, "a") as c:
            new = await another(peer, world, c, "new")
            slow = await peer(world, "slow", 9876).start()
            slow.answers[ROUTE] = None
            async with Client("slow:9876;slow:9876", world=world) as client, client.producer("P") as producer:
                looking = asyncio.ensure_future(producer.wait_ready("T"))
                await world.clock.sleep(1)
                producer.set_name_servers("new:9876")
                await looking
                assert (await producer.send(Message("T", b"x"))).ok
            await new.stop()
            await slow.stop()

    simulate(work)


def test_a_client_made_anew_asks_the_name_servers_set_last(simulate, cluster, peer):
    async def work(world):
        async with cluster(world, "a") as c:
            client = Client("dead:9876", world=world)
            async with client:
                client.set_name_servers(c.namesrv)
            async with client:
                assert (await client.producer("P").send(Message("T", b"x"))).ok

    simulate(work)


@pytest.mark.parametrize("given", ["", "nonsense", "a:1;b"])
def test_addresses_that_are_none_are_refused(simulate, cluster, given):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            with pytest.raises(OptionUnusable, match="the name server address"):
                client.set_name_servers(given)
            assert client.name_servers == (c.namesrv,)
        with pytest.raises(ClientError, match="is not started"):
            client.set_name_servers("a:1")
        assert issubclass(OptionUnusable, ConfigError)

    simulate(work)


def test_a_host_name_is_an_address(cluster):
    async def work():
        from gantrymq.world.real import real_world

        async with cluster(real_world(), "a", real=True) as c:
            port = c.namesrv.rpartition(":")[2]
            async with Client(f"localhost:{port}") as client, client.producer("P") as producer:
                assert (await producer.send(Message("T", b"x"))).ok
            with pytest.raises(ConnectFailed, match=r"no name server answers at no-such-host\.invalid:1 "):
                async with Client("no-such-host.invalid:1") as client, client.producer("P") as producer:
                    await producer.send(Message("T", b"x"))

    asyncio.run(work())
