"""A slave follows the master that name servers tell, its log and its tables, and no other one."""

import pytest
from ha_pairs import end, following, ha_address, problem, put, replicas, service, simulate_pair

from gantrymq.errors import FlushSlaveTimeout, SlaveNotAvailable
from gantrymq.interfaces import SendRequest
from gantrymq.model.topic import TopicConfig
from gantrymq_replication.master_broker import MasterBroker
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

SOON = {"registerNameServerPeriod": 10_000}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


async def follow(pair, **settings):
    """A master with a topic, and its slave, which asks the master's name server."""
    master = await pair.master(**settings)
    master.broker.topics.update(TopicConfig("Orders", 4, 4), {})
    slave = await pair.start("slave", master.namesrv, **SLAVE, **SOON)
    await pair.until(lambda: service(slave, TablesService).rounds, "tables")
    return master, slave


async def sent(cluster):
    answer = await cluster.broker.messages.send(SendRequest("p", "Orders", b"body"))
    return answer.unconfirmed.response_code if answer.unconfirmed else 0


def test_a_second_master_of_the_same_name_deletes_nothing_on_the_slave():
    async def main(pair):
        master, slave = await follow(pair)
        await put(master, 8)
        await pair.equal(master, slave)
        second = await pair.start("second", master.namesrv, **SOON)
        told = service(slave, SlaveService)
        await pair.until(lambda: told.master_address == ha_address(second), "another master", 40)
        await pair.world.clock.sleep(5)
        assert slave.broker.topics.get("Orders") is not None and not following(slave)
        assert "before it sent anything" in problem(slave)
        await second.stop()
        await pair.until(lambda: told.master_address == ha_address(master), "the first master again", 60)
        await pair.equal(master, slave)
        assert slave.broker.topics.get("Orders") is not None

    simulate_pair(main)


def test_tables_of_another_master_are_not_taken_while_the_log_of_the_first_is_copied():
    async def main(pair):
        master, slave = await follow(pair)
        second = await pair.start("second", master.namesrv, **SOON)
        second_address = second.broker.registration.address
        told = service(slave, SlaveService)
        told._master.learn(second_address, ha_address(second))  # and the connection has not ended yet
        told.master_address = ha_address(second)
        assert told.followed is None
        assert following(slave)

    simulate_pair(main)


def test_a_slave_that_knows_a_new_master_confirms_nothing_to_the_old_one(caplog):
    async def main(pair):
        master, slave = await follow(pair, brokerRole="SYNC_MASTER", inSyncReplicas=2, slaveTimeout=1000)
        assert await sent(master) == 0
        await pair.start("second", master.namesrv, **SOON)
        told = service(slave, SlaveService)
        await pair.until(lambda: told.master_address != ha_address(master), "another master", 40)
        before = end(slave)
        codes = {await sent(master) for _ in range(5)}
        assert codes <= {FlushSlaveTimeout.response_code, SlaveNotAvailable.response_code} and not replicas(master)
        assert end(slave) == before
        assert f"master {ha_address(master)}: the master is at {told.master_address} now" in caplog.text

    simulate_pair(main)


# --- haMasterAddress --------------------------------------------------------------------------------------------------


def test_the_ha_port_of_another_broker_name_is_refused():
    async def main(pair):
        master = await pair.master(**SOON)
        other = await pair.start("other", master.namesrv, brokerName="broker-b")
        await put(other, 20)
        mine = {**SLAVE, "haMasterAddress": ha_address(other)}
        slave = await pair.start("slave", master.namesrv, **mine)
        await pair.until(lambda: "name servers tell another HA address" in problem(slave), "refusal")
        assert f"of the master of broker-a: {ha_address(master)}" in problem(slave) and "brokerIP2" in problem(slave)
        await pair.world.clock.sleep(20)
        assert end(slave) == 0 and not following(slave)

    simulate_pair(main)


def test_a_slave_of_a_wrong_address_stops_when_a_name_server_tells_the_right_one():
    async def main(pair):
        other = await pair.start("other", brokerName="broker-b")
        slave = await pair.start("slave", other.namesrv, **SLAVE, **SOON, haMasterAddress=ha_address(other))
        await put(other, 3)
        await pair.equal(other, slave)
        await pair.start("master", other.namesrv, **SOON)
        await pair.until(lambda: "name servers tell another HA address" in problem(slave), "refusal", 40)
        assert not replicas(other)

    simulate_pair(main)


@pytest.mark.parametrize(
    ("told", "address", "peer", "fits"),
    [
        ("10.0.0.5:10912", "10.0.0.5:10912", "10.0.0.5:10912", True),
        ("10.0.0.5:10912", "db1:10912", "10.0.0.5:10912", True),
        ("db1.example:10912", "10.0.0.5:10912", "10.0.0.5:10912", True),
        ("10.9.9.9:10912", "10.0.0.4:10912", "10.0.0.4:10912", True),  # the broker's host
        ("10.0.0.5:10912", "10.0.0.7:10912", "10.0.0.7:10912", False),
        ("10.0.0.5:10912", "10.0.0.5:10922", "10.0.0.5:10922", False),
        ("[2001:db8::1]:10912", "[2001:db8:0::1]:10912", "[2001:db8:0::1]:10912", True),
        ("nonsense", "10.0.0.7:10912", "10.0.0.7:10912", True),
        ("", "10.0.0.7:10912", "10.0.0.7:10912", True),
    ],
)
def test_addresses_of_one_master(told, address, peer, fits):
    async def main(pair):
        known = MasterBroker((await pair.master()).broker)
        known.learn("10.0.0.4:10911", told)
        assert (known.problem(address, peer) == "") is fits
        await known.close()

    simulate_pair(main)


# --- files of another size --------------------------------------------------------------------------------------------


def test_another_size_of_log_files_is_noticed_before_anything_is_copied():
    async def main(pair):
        master = await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=2, slaveTimeout=1000)
        slave = await pair.start("slave", master.namesrv, **SLAVE, mappedFileSizeCommitLog=131072)
        await pair.until(lambda: "mappedFileSizeCommitLog=65536" in problem(slave), "refusal")
        assert "its log files have 65536 bytes, those here 131072" in problem(slave)
        await pair.world.clock.sleep(12)
        assert await sent(master) == SlaveNotAvailable.response_code and end(slave) == 0

    simulate_pair(main)
