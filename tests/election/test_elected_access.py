"""Elected brokers with access control: members sign their requests, and one that cannot does not join."""

import json

import pytest

pytest.importorskip("gantrymq_replication")

from accounts import GUARDED, SIGNED, AccountsPlugin, accounts_of
from elected_brokers import elected, leads, members, send, simulate_brokers, two_in_sync
from ha_pairs import service

from gantrymq.errors import ServiceNotAvailable, StoreError
from gantrymq_replication.tables import TablesService


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``; the brokers have the test authorizer."""

    async def with_accounts(main, brokers):
        brokers.pair.plugins = [("accounts", AccountsPlugin())]
        await main(brokers)

    return lambda main: simulate_brokers(lambda brokers: with_accounts(main, brokers), monkeypatch)


def test_members_with_the_inner_credentials_are_in_sync_and_take_over(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, **SIGNED)
        assert await send(one) == 0  # creates a topic, which both have before the answer
        assert two.broker.topics.get("Orders") is not None
        await one.stop()
        await brokers.until(lambda: leads(two), "the next master")
        assert accounts_of(two).refused == []

    run(main)


def test_a_change_of_users_is_answered_when_the_in_sync_set_has_it(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, **SIGNED)
        await accounts_of(one).change(guest=None, shop=["shop-secret"])
        assert accounts(two) == accounts(one) == {"inner": ["inner-secret"], "shop": ["shop-secret"]}
        await one.stop()
        await brokers.until(lambda: leads(two), "the next master")
        await accounts_of(two).change(shop=None)
        again = await brokers.start("one", **SIGNED)  # begins with the accounts of its settings
        await brokers.until(lambda: members(two) == {1, 2}, "set of two")
        assert accounts(again) == {"inner": ["inner-secret"]}

    run(main)


def test_a_member_that_cannot_take_the_users_leaves_the_set(run):
    """It may not become the master: it would admit users that were deleted."""

    async def main(brokers):
        one, two = await two_in_sync(brokers, **SIGNED)
        accounts_of(two).take_state = refuse
        with pytest.raises(ServiceNotAvailable, match="the in-sync set did not copy a change of users or permissions"):
            await accounts_of(one).change(guest=None)
        await brokers.until(lambda: members(one) == {1}, "set without it")
        await brokers.pair.world.clock.sleep(10)
        assert members(one) == {1} and "the disk is full" in service(two, TablesService).problem

    async def refuse(texts):
        raise StoreError("the disk is full")

    run(main)


def accounts(cluster):
    return json.loads(accounts_of(cluster).text)


def test_a_broker_without_credentials_does_not_join_and_names_the_setting(run):
    async def main(brokers):
        one = await brokers.start("one", **SIGNED)
        await brokers.until(lambda: leads(one), "master")
        two = await brokers.start("two", **GUARDED)
        await brokers.until(lambda: "controls access" in elected(two).copy.problem, "the refusal")
        assert "set innerClientAuthenticationCredentials of this server" in elected(two).copy.problem
        assert members(one) == {1} and two.store.raw_log.log_range().max_offset == 0

    run(main)
