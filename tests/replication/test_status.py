"""What operators see of replication: requests 907 and 1007, and metrics."""

import json
from types import SimpleNamespace

import pytest
from ha_pairs import end, following, ha_address, put, replicas, service, simulate_pair, slave_of

from gantrymq.client import Client
from gantrymq.errors import BrokerRefused, RequestRefused, ServiceNotAvailable
from gantrymq.interfaces import SendRequest
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq_replication.election.requests import CHANGE_MASTER
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.status import StatusService
from gantrymq_replication.traffic import Departure, Departures, Traffic

# The members of RocketMQ's answers, of a 5.3.3 master with a slave and of that slave.
CLIENT = {"lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond"}
CONNECTION = {"addr", "diff", "inSync", "slaveAckOffset", "transferFromWhere", "transferredByteInSecond"}
BODY = {"haClientRuntimeInfo", "haConnectionInfo", "inSyncSlaveNums", "master", "masterCommitLogMaxOffset"}


def status(cluster):
    asked = Command(RequestCode.GET_BROKER_HA_STATUS)
    return json.loads(service(cluster, StatusService).status(asked, SimpleNamespace(address="x")).payload)


def metrics(cluster):
    """Name without its prefix to the value, or to the values by slave."""
    found = {}
    for family in cluster.broker.metrics.of_plugins():
        if family.name.startswith("gantrymq_replication_"):
            values = dict(family.values)
            found[family.name.removeprefix("gantrymq_replication_")] = values.get((), values)
    return found


def test_master_and_slave_answer_with_what_java_answers():
    async def main(pair):
        master = await pair.master()
        await put(master, 20)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await pair.until(lambda: replicas(master)[0].acked == end(master), "acknowledgement")
        of_master, of_slave = status(master), status(slave)
        (connection,) = of_master["haConnectionInfo"]
        assert BODY.issubset(of_master)
        assert CLIENT.issubset(of_master["haClientRuntimeInfo"])
        assert CONNECTION.issubset(connection)
        assert (of_master["master"], of_master["inSyncSlaveNums"]) == (True, 1)
        assert of_master["masterCommitLogMaxOffset"] == connection["slaveAckOffset"] == end(master)
        assert (connection["diff"], connection["inSync"], connection["transferFromWhere"]) == (0, True, end(master))
        client = of_slave["haClientRuntimeInfo"]
        assert BODY.issubset(of_slave)
        assert (CLIENT | {"masterAddr"}).issubset(client)
        assert (of_slave["master"], of_slave["haConnectionInfo"], of_slave["masterCommitLogMaxOffset"]) == (
            False,
            [],
            0,
        )
        assert (client["masterAddr"], client["maxOffset"], client["problem"]) == (ha_address(master), end(slave), "")
        assert client["localAddr"] == connection["addr"]
        assert client["tablesProblem"].startswith("no name server knows a master of broker-a")  # each has its own
        assert 0 < client["lastReadTimestamp"] <= master.world.clock.now_ms()

    simulate_pair(main)


def test_a_slave_that_is_gone_and_one_that_does_not_fit_are_told():
    async def main(pair):
        master = await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=2)
        assert (status(master)["inSyncCopies"], status(master)["wantedCopies"]) == (1, 2)
        slave = await pair.slave(master)
        await pair.until(lambda: status(master)["inSyncCopies"] == 2, "slave in sync")
        assert status(master)["haDepartures"] == []
        await slave.stop()
        await pair.until(lambda: status(master)["haDepartures"], "departure")
        (departure,) = status(master)["haDepartures"]
        assert departure["problem"] in ("it closed the connection", "connection reset by peer")
        assert master.world.clock.now_ms() - departure["timestamp"] < 1000
        other = await pair.start("other")
        await put(other, 30)
        await other.stop()
        longer = await pair.start("other", **slave_of(master))
        await pair.until(lambda: "does not have" in status(master)["haDepartures"][0]["problem"], "refusal")
        assert "the master's log has the reason" in status(longer)["haClientRuntimeInfo"]["problem"]
        assert (metrics(longer)["not_following"], metrics(master)["not_following"]) == (1, 0)

    simulate_pair(main)


def test_lag_is_measured_while_a_slave_is_slow():
    async def main(pair):
        master = await pair.master(haFlowControlEnable=True, maxHaTransferByteInSecond=10_000)
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave) and replicas(master), "slave")
        await put(master, 100)  # 70 kB
        await pair.world.clock.sleep(4)
        (connection,) = status(master)["haConnectionInfo"]
        assert connection["diff"] == end(master) - connection["slaveAckOffset"] > 10_000
        assert 3000 < connection["lateMillis"] < 5000
        assert 5_000 < connection["transferredByteInSecond"] < 20_000
        found = metrics(master)
        assert found["lag_bytes"] == {(connection["addr"],): connection["diff"]}
        assert found["lag_seconds"] == {
            (connection["addr"],): pytest.approx(connection["lateMillis"] / 1000, abs=0.001)
        }
        await pair.equal(master, slave)
        await pair.until(lambda: metrics(master)["lag_bytes"] == {(connection["addr"],): 0}, "acknowledgement")
        found = metrics(master)
        assert found["lag_seconds"] == {(connection["addr"],): 0}
        assert (found["slaves"], found["in_sync_copies"], found["wanted_copies"]) == (1, 2, 1)
        assert found["refused_total"] == 0
        assert found["sent_bytes_total"] == end(master) <= metrics(slave)["received_bytes_total"]

    simulate_pair(main)


def test_epochs_are_refused_with_java_s_sentence():
    async def main(pair):
        master = await pair.master()
        with pytest.raises(RequestRefused) as refusal:
            service(master, StatusService).epochs(Command(RequestCode.GET_BROKER_EPOCH_CACHE), SimpleNamespace())
        assert (refusal.value.response_code, str(refusal.value)) == (1, "this request only for controllerMode ")

    simulate_pair(main)


def test_a_slave_names_its_master_to_senders_and_operators():
    pytest.importorskip("gantrymq_nameserver")
    pytest.importorskip("gantrymq_diagnosis")
    explanations = pytest.importorskip("gantrymq_admin.explanations")
    copies = pytest.importorskip("gantrymq_admin.copies")

    async def main(pair):
        master = await pair.master()
        slave = await pair.start("slave", namesrv=master.namesrv, brokerRole="SLAVE", brokerId=1)
        await pair.until(lambda: following(slave), "copy")
        address, own = master.broker.registration.address, slave.broker.registration.address
        assert slave.broker.registration.master_address == address
        with pytest.raises(ServiceNotAvailable) as refusal:
            await slave.broker.messages.send(SendRequest("p", "Orders", b"x"))
        assert str(refusal.value).endswith(f"send to the master of its group; the master is {address}")
        async with Client(master.namesrv, world=pair.world) as client, client.admin as admin:
            with pytest.raises(BrokerRefused, match=f"from master broker; the master is {address}"):
                await admin.create_topic(own, TopicConfig("New", 1, 1))
            await admin.create_group(address, GroupConfig("CG"))
            await pair.until(lambda: slave.broker.groups.get("CG") is not None, "group on the slave")
            found = await explanations.explain_group(admin, own, "CG")
            assert found.diagnosis[0].reason == "on-a-slave"
            assert f"gantrymq group explain CG -b {address}" in found.diagnosis[0].sentence
            found = await explanations.explain_group(admin, address, "CG")
            assert "on-a-slave" not in [each.reason for each in found.diagnosis]
            await pair.until(lambda: status(master)["haConnectionInfo"], "slave")
            found = await copies.ask_copies(admin, {0: address, 1: own}, pair.world.clock.now_ms())
            assert [(each.role, each.address, each.following) for each in found] == [
                ("master", address, None),
                ("slave", own, True),
            ]

    simulate_pair(main)


def test_the_rate_is_that_of_the_last_second_with_traffic():
    traffic = Traffic()
    traffic.add(100, 10.0)
    traffic.add(200, 10.5)
    assert traffic.per_second(10.9) == 0
    assert traffic.per_second(11.0) == 300
    assert (traffic.per_second(12.5), traffic.total) == (0, 300)


def test_a_slave_that_stops_is_not_lost_and_a_lost_one_is_forgotten():
    async def main(pair):
        master = await pair.master()
        client = RemotingClient(pair.world)

        async def forget(host):
            asked = request(CHANGE_MASTER, {"act": "forget", "host": host})
            answer = await client.call(master.broker.registration.address, asked)
            return answer.code, answer.remark

        async def departure(slave):
            """The only one, after the stop of *slave*."""
            await pair.until(lambda: following(slave) and service(slave, SlaveService).followed, "slave")
            before = status(master)["haDepartures"]
            if before:
                service(slave, SlaveService)._master.address = ""  # it says nothing, as if it was killed
            await slave.stop()
            await pair.until(lambda: status(master)["haDepartures"] != before, "departure")
            (found,) = status(master)["haDepartures"]
            return found

        assert not (await departure(await pair.slave(master, namesrv=master.namesrv)))["reported"]
        assert (await forget("127.0.0.1"))[0] == 1  # no slave is lost
        assert (await departure(await pair.slave(master, namesrv=master.namesrv)))["reported"]
        code, remark = await forget("10.0.0.9")
        assert (code, remark) == (1, "this broker has lost no slave at 10.0.0.9, or it is not the master")
        assert (await forget("127.0.0.1"))[0] == 0
        assert status(master)["haDepartures"] == []
        await client.close()

    simulate_pair(main)


def test_departures_are_bounded_and_say_what_is_new():
    departures = Departures()
    assert departures.note(Departure("one", 1, "x"))
    assert not departures.note(Departure("one", 2, "x"))
    assert departures.note(Departure("one", 3, "y"))
    for number in range(100):
        departures.note(Departure(f"host {number}", 4, "x"))
    assert len(departures.all) == 64
    assert departures.note(Departure("one", 5, "y"))


def test_a_slave_says_when_it_last_heard_its_master_after_it_has_lost_it():
    async def main(pair):
        master = await pair.master()
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave), "copy")
        clock = pair.world.clock
        stopped_ms = clock.now_ms()
        await master.stop()
        await clock.sleep(60)
        heard_ms = status(slave)["haClientRuntimeInfo"]["lastReadTimestamp"]
        assert stopped_ms - 10_000 < heard_ms <= stopped_ms + 1000

    simulate_pair(main)
