"""What operators see of a slave that does not copy its master, and why: `gantrymq cluster status`, `group explain`."""

from collections import Counter

import pytest
from ha_pairs import end, following, ha_address, put, replicas, service, simulate_pair

from gantrymq.client import Client
from gantrymq.errors import ConnectFailed
from gantrymq.model.group import GroupConfig
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

FEW = "copies in sync: 1, fewer than the 2 that its settings ask for"


@pytest.fixture
def run():
    """``run(work)`` runs ``await work(pair, master, seen)``; ``await seen(slave)`` returns master and slave."""
    for needed in ("admin", "nameserver"):
        pytest.importorskip(f"gantrymq_{needed}")
    from gantrymq_admin.copies import ask_copies

    def run(work):
        async def main(pair):
            settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "cleanFileForciblyEnable": False}
            master = await pair.master(**settings)
            async with Client(master.namesrv, world=pair.world) as client:

                async def seen(slave=None):
                    brokers = {0: master} if slave is None else {0: master, 1: slave}
                    addresses = {number: each.broker.registration.address for number, each in brokers.items()}
                    return await ask_copies(client.admin, addresses, pair.world.clock.now_ms())

                await work(pair, master, seen)

        simulate_pair(main)

    return run


async def slave_of(pair, master, root="slave", **settings):
    """Start a slave that the name server of *master* knows."""
    return await pair.start(root, namesrv=master.namesrv, brokerRole="SLAVE", brokerId=1, **settings)


def test_a_slave_that_follows_one_that_is_stopped_and_one_that_is_lost(run):
    async def work(pair, master, seen):
        slave = await slave_of(pair, master)
        await put(master, 10)
        await pair.equal(master, slave)
        await pair.until(lambda: replicas(master)[0].acked == end(master), "acknowledgement")
        of_master, of_slave = await seen(slave)
        assert (of_master.in_sync_copies, of_master.wanted_copies, of_master.problem) == (2, 2, None)
        assert (of_slave.following, of_slave.in_sync, of_slave.lag_bytes, of_slave.lag_s) == (True, True, 0, 0)
        await slave.stop()
        await pair.until(lambda: not replicas(master), "end of the slave")
        (of_master,) = await seen()
        assert (of_master.in_sync_copies, of_master.problem) == (1, FEW)

        slave = await slave_of(pair, master)
        await pair.until(lambda: replicas(master) and following(slave), "slave")
        service(slave, SlaveService)._master.address = ""  # it says nothing, as if it was killed
        await slave.stop()
        await pair.until(lambda: not replicas(master), "end of the slave")
        of_master, of_slave = await seen()
        assert (of_master.in_sync_copies, of_master.problem) == (1, FEW)
        assert (of_slave.following, of_slave.in_sync, of_slave.lag_bytes) == (False, None, None)
        assert "not registered with the name servers; the master lost the connection at" in of_slave.problem

    run(work)


def test_a_slave_that_copies_the_log_but_no_tables(run):
    health = pytest.importorskip("gantrymq_metrics.service").health

    def told(cluster):
        name = "gantrymq_replication_tables_not_copied"
        (found,) = (each for each in cluster.broker.metrics.of_plugins() if each.name == name)
        return found.values[()], *found.sentences.values()

    async def work(pair, master, seen):
        slave = await slave_of(pair, master)
        await pair.equal(master, slave)
        tables = service(slave, TablesService)
        await pair.until(lambda: told(slave) == (0,), "tables")
        assert (await seen(slave))[1].tables_copied is True and health(slave.broker)["warnings"] == []

        async def fails(master):
            raise ConnectFailed("it speaks TLS only")

        tables.round = fails
        await pair.until(lambda: told(slave)[0], "failure")
        _, of_slave = await seen(slave)
        assert (of_slave.following, of_slave.tables_copied, of_slave.lacking) == (True, False, True)
        reason = f"master {master.broker.registration.address}: it speaks TLS only"
        assert of_slave.problem == f"topics, groups and offsets are not copied: {reason}"
        assert told(slave)[1] == f"topics, groups and offsets of the master are not copied: {reason}"
        assert health(slave.broker)["healthy"] and health(slave.broker)["warnings"] == [told(slave)[1]]
        await slave.stop()

    run(work)


def test_the_lack_of_slaves_is_told_by_metrics_and_health(run):
    health = pytest.importorskip("gantrymq_metrics.service").health

    async def work(pair, master, seen):
        await pair.until(lambda: health(master.broker)["warnings"], "warning")
        (warning,) = health(master.broker)["warnings"]
        assert "inSyncReplicas=2 needs 1" in warning and health(master.broker)["healthy"]
        slave = await slave_of(pair, master)
        await pair.until(lambda: not health(master.broker)["warnings"], "end of it")
        await master.stop()
        await pair.until(lambda: health(slave.broker)["warnings"], "warning of the slave")
        assert "this copy does not follow: master" in health(slave.broker)["warnings"][0]

    run(work)


def test_a_slave_with_another_log(run):
    async def work(pair, master, seen):
        await put(master, 10)
        other = await pair.start("other")
        await put(other, 5)
        await other.stop()
        slave = await slave_of(pair, master, "other")
        await pair.world.clock.sleep(5)
        of_master, of_slave = await seen(slave)
        assert of_master.problem == FEW
        assert (of_slave.following, of_slave.lag_bytes) == (False, end(master) - end(slave))
        assert (
            "differs from the master's at" in of_slave.problem and "Keep a copy of its store folder" in of_slave.problem
        )
        assert "lost the connection" not in of_slave.problem  # the slave itself has said why

    run(work)


def test_a_slave_that_asks_at_a_wrong_address(run):
    async def work(pair, master, seen):
        await put(master, 10)
        another = await pair.start("another", namesrv=master.namesrv, brokerName="broker-b")
        for number, (address, said) in enumerate(
            {
                "127.0.0.1:1": "nothing listens there",
                master.broker.registration.address: "name servers tell another HA address of the master of broker-a",
                ha_address(another): "name servers tell another HA address of the master of broker-a",
            }.items()
        ):
            slave = await slave_of(pair, master, f"slave{number}", haMasterAddress=address)
            await pair.world.clock.sleep(30)
            of_master, of_slave = await seen(slave)
            assert (of_master.problem, of_slave.following) == (FEW, False)
            assert said in of_slave.problem
            assert of_slave.lacking
            await slave.stop()

    run(work)


def test_a_slave_with_a_full_disk(run, caplog):
    pytest.importorskip("gantrymq_diagnosis")
    from gantrymq_admin.explanations import explain_group

    async def work(pair, master, seen):
        slave = await slave_of(pair, master)
        await put(master, 100)
        async with Client(master.namesrv, world=pair.world) as client:
            await client.admin.create_group(master.broker.registration.address, GroupConfig("CG"))
            await pair.until(lambda: slave.broker.groups.get("CG") is not None, "group on the slave")
        await pair.equal(master, slave)
        await slave.stop()
        await put(master, 300)
        files = pair.world.files
        whole, files.capacity = files.capacity, files._disk.used + 20_000
        caplog.clear()
        slave = await slave_of(pair, master)
        await pair.world.clock.sleep(60)
        _, of_slave = await seen(slave)
        assert (of_slave.following, of_slave.lag_bytes) == (False, end(master) - end(slave))
        assert "this slave's store takes no more: the disk of /slave/store/commitlog is" in of_slave.problem
        told = Counter(each.getMessage()[:40] for each in caplog.records)
        assert max(told.values()) < 10, "its log and that of the master repeat themselves"
        async with Client(master.namesrv, world=pair.world) as client:
            own = slave.broker.registration.address
            reasons = (await explain_group(client.admin, own, "CG")).diagnosis
            assert [each.reason for each in reasons[:2]] == ["on-a-slave", "slave-not-following"]
            assert "store takes no more" in reasons[1].sentence
            files.capacity = whole
            await pair.until(lambda: following(slave) and end(slave) == end(master), "copy", 60)
            reasons = (await explain_group(client.admin, own, "CG")).diagnosis
            assert "slave-not-following" not in [each.reason for each in reasons]

    run(work)
