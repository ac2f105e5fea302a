"""Users and policies of `authorizer=acl` on slaves and elected brokers."""

import asyncio
import json

import pytest

pytest.importorskip("gantrymq_replication")

from access_rig import BOTH
from elected_brokers import elected, leads, members, simulate_brokers
from ha_pairs import following, service, simulate_pair

from gantrymq.client import Credentials
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer
from gantrymq_replication.tables import TablesService

ROOT, INNER, SHOP = ("rocketmq", "12345678"), ("inner", "inner-secret"), ("shop", "shop-secret")
SETTINGS = {**BOTH, "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": INNER[1]})}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


async def ask(cluster, user, code, ext=None, body=None):
    client = RemotingClient(cluster.world, sign=Signer(Credentials(*user)).sign)
    try:
        return await client.call(
            cluster.broker_address, request(code, ext, None if body is None else json.dumps(body).encode()), 10
        )
    finally:
        await client.close()


async def create(cluster, name="shop", secret=SHOP[1]):
    return await ask(cluster, ROOT, 3001, {"username": name}, {"password": secret})


async def knows(cluster, user=SHOP):
    """Return whether a broker identifies *user*; a heartbeat needs nothing else."""
    beat = {"clientID": "c", "producerDataSet": [], "consumerDataSet": []}
    return (await ask(cluster, user, 34, None, beat)).code == 0


async def pair_of(pair):
    master = await pair.start("master", **SETTINGS)
    slave = await pair.start("slave", master.namesrv, **SLAVE, **SETTINGS)
    await pair.until(lambda: following(slave) and service(slave, TablesService).rounds, "a round")
    return master, slave


def test_a_slave_has_the_users_of_its_master_and_their_changes():
    async def main(pair):
        master, slave = await pair_of(pair)
        assert await knows(slave, ROOT) and await knows(slave, INNER) and not await knows(slave)
        assert (await create(master)).code == 0
        assert await knows(slave)
        assert (await ask(master, ROOT, 3003, {"username": "shop"})).code == 0
        assert not await knows(slave)

    simulate_pair(main)


def test_users_are_changed_at_the_master_only():
    async def main(pair):
        _, slave = await pair_of(pair)
        answer = await create(slave)
        assert answer.code == 1 and "come from its master; change them there" in answer.remark

    simulate_pair(main)


def test_a_slave_keeps_the_users_for_its_next_start():
    async def main(pair):
        master, slave = await pair_of(pair)
        assert (await create(master)).code == 0
        await master.server.stop()
        await slave.server.stop()
        again = await pair.start("slave", **SETTINGS)  # as the master
        assert await knows(again)

    simulate_pair(main)


def test_the_secret_of_the_servers_is_changed_without_a_pause():
    async def main(pair):
        master, slave = await pair_of(pair)
        change = {"password": "next-secret", "keepOldPassword": 3_600_000}
        assert (await ask(master, ROOT, 3002, {"username": "inner"}, change)).code == 0
        rounds = service(slave, TablesService).rounds
        await pair.until(lambda: service(slave, TablesService).rounds > rounds + 1, "rounds with the old secret", 10)
        await slave.server.stop()
        inner = json.dumps({"accessKey": "inner", "secretKey": "next-secret"})
        slave = await pair.start(
            "slave", master.namesrv, **SLAVE, **{**SETTINGS, "innerClientAuthenticationCredentials": inner}
        )
        await pair.until(lambda: service(slave, TablesService).rounds, "a round with the new secret")
        assert (await create(master)).code == 0 and await knows(slave)

    simulate_pair(main)


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)`` with brokers that are elected."""
    return lambda main: simulate_brokers(main, monkeypatch)


async def two(brokers):
    one = await brokers.start("one", **SETTINGS)
    await brokers.until(lambda: leads(one), "master")
    other = await brokers.start("two", **SETTINGS)
    await brokers.until(lambda: members(one) == {1, 2}, "set of two")
    return one, other


def test_the_first_master_of_a_set_creates_the_users_of_its_settings(run):
    async def main(brokers):
        one, other = await two(brokers)
        for each in (one, other):
            assert await knows(each, ROOT) and await knows(each, INNER) and elected(each).enabled

    run(main)


def test_the_next_master_refuses_what_the_last_one_refused(run):
    async def main(brokers):
        one, other = await two(brokers)
        assert (await create(one)).code == 0 and await knows(other)
        assert (await ask(one, ROOT, 3003, {"username": "shop"})).code == 0
        await one.stop()
        await brokers.until(lambda: leads(other), "the next master")
        assert not await knows(other)
        assert (await create(other, "next", "next-secret")).code == 0
        again = await brokers.start("one", **SETTINGS)
        await brokers.until(lambda: members(other) == {1, 2}, "set of two")
        assert await knows(again, ("next", "next-secret")) and not await knows(again)

    run(main)


def test_a_user_of_the_settings_who_was_deleted_does_not_come_back_with_the_next_master(run):
    async def main(brokers):
        one, other = await two(brokers)
        assert (await ask(one, INNER, 3003, {"username": ROOT[0]})).code == 0
        await one.stop()
        await brokers.until(lambda: leads(other), "the next master")
        await asyncio.sleep(0)
        await brokers.pair.world.clock.sleep(2)
        assert not await knows(other, ROOT) and await knows(other, INNER)

    run(main)
