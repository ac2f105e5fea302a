"""Settings that acting masters need, and that name servers or the master do not have, are told by the slave."""

import logging

import pytest
from acting_groups import simulate_group
from ha_pairs import service

from gantrymq.client import Client
from gantrymq.model.role import Role
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.acting.group import OF_MASTERS, OF_NAME_SERVERS, problem_of


def problem(group):
    return service(group.slave.cluster, ActingService).settings_problem


async def told(group):
    """The member of request 907, which `gantrymq cluster status` shows."""
    async with Client(group.namesrv, world=group.pair.world) as client, client.admin as admin:
        status = await admin.ha_status(group.slave.cluster.broker.registration.address)
    return status.connection.acting_settings


@pytest.mark.parametrize("name", OF_NAME_SERVERS)
def test_a_name_server_without_acting_masters_is_told(name, caplog):
    async def main(group):
        await group.clock.sleep(11)
        assert problem(group) == await told(group) == ""
        async with Client(group.namesrv, world=group.pair.world) as client, client.admin as admin:
            await admin.change_name_server_settings({name: "false"})
        await group.clock.sleep(31)
        assert problem(group) == f"name server {group.namesrv} has {name}=false: {OF_NAME_SERVERS[name]}"
        assert await told(group) == problem(group)
        lines = [each for each in caplog.records if each.levelno == logging.WARNING and name in each.getMessage()]
        assert len(lines) == 1
        async with Client(group.namesrv, world=group.pair.world) as client, client.admin as admin:
            await admin.change_name_server_settings({name: "true"})
        await group.clock.sleep(11)
        assert problem(group) == ""

    simulate_group(main)


def test_a_master_that_takes_nothing_over_is_told_also_while_the_slave_acts():
    async def main(group):
        group.master.process.kill()
        group.master.settings["enableSlaveActingMaster"] = False
        await group.master.start()
        await group.copied()
        await group.clock.sleep(11)
        address = group.master.cluster.broker.registration.address
        assert problem(group) == f"master {address} has enableSlaveActingMaster=false: " + "".join(OF_MASTERS.values())
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 15)
        await group.clock.sleep(20)
        assert await told(group) == problem(group) != ""

    simulate_group(main)


def test_only_what_is_told_counts():
    assert problem_of([], OF_MASTERS) == ""
    assert problem_of(["a = b", " enableSlaveActingMaster = true "], OF_MASTERS) == ""
    assert problem_of(["kvConfigPath=/x"], OF_NAME_SERVERS) == ", and ".join(
        f"{name}=false: {why}" for name, why in OF_NAME_SERVERS.items()
    ), "name servers of 4.9"
