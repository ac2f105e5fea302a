"""Which broker a group should pull from next, and what a slave answers."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import pull_ext, records, run_broker, topic_ext

from gantrymq.broker.consuming.slave_reads import SlaveReads
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import GetResult, GetStatus
from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.role import Role
from gantrymq.plugins import load_plugins

TOPIC = topic_ext("A", 1)
ENABLED = {"slaveReadEnable": True}
MASTER, SLAVE, OLD, RECENT = True, False, True, False


@pytest.mark.parametrize(
    ("enabled", "is_master", "distant", "suggested"),
    [
        (False, MASTER, OLD, 0),
        (False, MASTER, RECENT, 0),
        (True, MASTER, OLD, 7),
        (True, MASTER, RECENT, 5),
        (True, SLAVE, OLD, 7),
        (True, SLAVE, RECENT, 0),
    ],
)
def test_the_suggested_broker(enabled, is_master, distant, suggested):
    rules = SlaveReads(Settings(SCHEMA, {"slaveReadEnable": enabled}), lambda: is_master)
    group = GroupConfig("G", broker_id=5, which_broker_when_slow=7)
    assert rules.suggested(group, GetResult(GetStatus.FOUND, 1, 0, 1, distant=distant)) == suggested


@pytest.fixture
def run(plugins):
    """``run(main)`` runs ``await main(desk, role)`` against a broker with a message in topic A."""
    kept = []

    class Keeper:
        name, roles = "keeper", frozenset(Role)

        async def start(self, broker):
            kept.append(broker)

        async def stop(self):
            kept.clear()

    class Module:
        @hookimpl
        def gantry_register_services(self, registry):
            registry.add(Keeper())

    loaded = load_plugins(extra=[("keeper", Module())], installed=False)

    async def filled(desk, main):
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.send("A")).code == 0
        await main(desk, kept[0].role)

    together = attrs.evolve(plugins, services=(*plugins.services, *loaded.services))
    return lambda main, **settings: run_broker(together, lambda desk: filled(desk, main), **settings)


def test_a_slave_serves_pulls_only_if_enabled(run):
    async def main(desk, role):
        await role.change(Role.REPLICA, 1)
        refused = await desk.pull("A")
        assert refused.code == 2
        assert "slaveReadEnable" in refused.remark
        assert (await desk.ask(25, None, b"slaveReadEnable=true")).code == 0
        assert len(records(await desk.pull("A"))) == 1
        await role.change(Role.MASTER, 2)
        assert (await desk.ask(25, None, b"slaveReadEnable=false")).code == 0
        assert len(records(await desk.pull("A"))) == 1

    run(main)


@pytest.mark.parametrize("beyond", [0, 5])
def test_a_slave_holds_a_pull_at_the_end_for_a_second_and_sends_it_to_the_master(run, beyond):
    async def main(desk, role):
        await role.change(Role.REPLICA, 1)
        began = desk.clock.monotonic()
        answer = await desk.pull("A", 1 + beyond, wait_s=15)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, str(1 + beyond))
        assert answer.ext["suggestWhichBrokerId"] == "0"
        assert 0.99 < desk.clock.monotonic() - began < 1.1
        assert (await desk.pull("A", 1 + beyond)).code == 20

    run(main, **ENABLED)


def test_a_pull_held_by_a_master_is_refused_by_the_slave_it_becomes(run):
    async def main(desk, role):
        held = desk.later(11, pull_ext("A", 1, wait_s=5))
        await desk.pull("A")
        await role.change(Role.REPLICA, 1)
        assert (await held).code == 2

    run(main)


def test_a_group_that_is_configured_for_a_slave_is_sent_there(run):
    async def main(desk, role):
        group = GroupConfig("CG", broker_id=3).to_json()
        assert (await desk.ask(200, None, dumps(group))).code == 0
        assert (await desk.pull("A")).ext["suggestWhichBrokerId"] == "3"
        await role.change(Role.REPLICA, 1)
        assert (await desk.pull("A")).ext["suggestWhichBrokerId"] == "0"

    run(main, **ENABLED)
