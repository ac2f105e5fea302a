"""Engines of elections that fail, and brokers that do not belong to their set; in a simulated world.

Errors of etcd itself come from a server in this process that answers each call with one of them.
"""

import asyncio
import contextlib
import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import ELECTED, elected, leads, members, send, simulate_brokers, two_in_sync
from ha_pairs import end, ha_address, put, simulate_pair
from scripted_cluster import Peer

from gantrymq.errors import ConfigError, RequestRefused, ServiceNotAvailable, StoreDamaged
from gantrymq.interfaces import Cleaning, SendRequest
from gantrymq.remoting.command import Command
from gantrymq.world.real import real_world
from gantrymq_replication.election import elected_broker as service_module
from gantrymq_replication.election.etcd_client import EtcdClient, EtcdClientSettings
from gantrymq_replication.election.machine import Follow

EPOCHS = Path("/one/store/epochFileCheckpoint")
IDENTITY = Path("/one/store/brokerIdentity")
PORT = 9878
LOG_END = 1794  # of three messages


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)`` with an etcd in memory."""
    return lambda main: simulate_brokers(main, monkeypatch)


@pytest.fixture
def stopped(row, run):
    """The start of a broker with some settings ends with a sentence."""

    def check(settings, prepare=None, error=ConfigError, **values):
        async def main(brokers):
            if prepare is not None:
                await prepare(brokers)
            with pytest.raises(error) as raised:
                await brokers.pair.start("one", **settings)
            return str(raised.value)

        row.check(run(main), "exit 1", **values)

    return check


@pytest.fixture
def apart(row, logged):
    """A broker takes no part in elections, and logs why. *answers*: of a controller, by request code."""

    def check(answers=None, addresses="127.0.0.1:1", **values):
        async def main(pair):
            if answers is not None:
                peer = await Peer(pair.world, "127.0.0.1", PORT).start()
                peer.answers.update(answers)
                pair._stack.push_async_callback(peer.stop)
            broker = await pair.start("one", enableControllerMode=True, controllerAddr=addresses)
            await pair.until(lambda: elected(broker).election.problem, "reason")
            await pair.world.clock.sleep(5)

        simulate_pair(main)
        row.check(logged.wait_for("this broker takes no part in the election"), "starts", **values)

    return check


async def refusal(broker):
    """The error of a send."""
    with pytest.raises((RequestRefused, ServiceNotAvailable)) as refused:
        await broker.broker.messages.send(SendRequest("p", "Orders", b"body"))
    return refused.value


async def sent(pair, broker, *pieces):
    """Send something to the HA port of *broker*, until it closes the connection; return the address."""
    reader, writer = await pair.connect(broker)
    with contextlib.suppress(OSError):
        for piece in pieces:
            writer.write(piece)
            await pair.world.clock.sleep(0.5)
        while await reader.read(1 << 16):
            pass
    return "{}:{}".format(*writer.get_extra_info("sockname"))


def handshake(broker_id):
    return struct.pack(">ihhq", 1, 0, 0, broker_id)


@pytest.fixture
def closed(row, run, logged):
    """Send something to the HA port of an elected master, which closes the connection and logs why."""

    def check(*pieces, beginning="slave {} is gone", **values):
        async def main(brokers):
            one = await brokers.start("one")
            await brokers.until(lambda: leads(one), "master")
            await put(one, 3)
            assert await elected(one).engine._take_id(2) == 2  # by a broker that is not there
            peer = await sent(brokers.pair, one, *pieces)
            await put(one, 1)
            return peer

        peer = run(main)
        row.check(logged.wait_for(beginning.format(peer)), "closed", peer=peer, **values)

    return check


# --- the engine -------------------------------------------------------------------------------------------------------


def test_bi337_controllers_that_are_gone(apart):
    apart()


def test_bi338_controllers_without_a_majority(apart):
    apart({1005: Command(0, ext={"isLeader": "false"})}, f"127.0.0.1:{PORT}", address=f"127.0.0.1:{PORT}")


def test_bi339_an_address_of_another_server(apart):
    apart({}, f"127.0.0.1:{PORT}", address=f"127.0.0.1:{PORT}")


def test_bi340_controllers_of_another_cluster(row, logged):
    answers = {
        1005: Command(0, ext={"controllerLeaderAddress": f"127.0.0.1:{PORT}", "isLeader": "true"}),
        1003: Command(2010, remark="unknown"),
    }

    async def main(pair):
        peer = await Peer(pair.world, "127.0.0.1", PORT).start()
        peer.answers.update(answers)
        pair.world.files.make_dirs(IDENTITY.parent)
        pair.world.files.replace(IDENTITY, b"DefaultCluster#broker-a#2")
        await pair.start("one", enableControllerMode=True, controllerAddr=peer.address)
        await pair.world.clock.sleep(5)
        await peer.stop()

    simulate_pair(main)
    seen = logged.wait_for("this broker takes no part in the election")
    row.check(seen, "starts", address=f"127.0.0.1:{PORT}", id=2, broker="broker-a", file=IDENTITY)


def test_bi341_a_master_that_lost_its_engine(row, run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        brokers.etcd.down = True
        await brokers.until(lambda: not leads(one), "fence")
        await brokers.pair.world.clock.sleep(5)
        return await refusal(one)

    refused = run(main)
    row.check(str(refused), refused.response_code, why="etcd does not answer")


def test_bi342_a_broker_outside_the_set_when_the_members_are_gone(row, run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        other = await brokers.start("other", asyncLearner=True)
        await brokers.until(lambda: elected(other).copy.followed, "copy")
        await other.stop()
        await one.stop()
        other = await brokers.start("other")
        await brokers.pair.world.clock.sleep(10)
        return await refusal(other)

    refused = run(main)
    row.check(str(refused), refused.response_code, id=2, members="1")


def test_bi343_the_package_of_etcd_is_missing(stopped, monkeypatch):
    pytest.importorskip("aetcd")
    monkeypatch.setitem(sys.modules, "aetcd", None)

    async def prepare(brokers):
        monkeypatch.setattr(service_module, "EtcdClient", EtcdClient)

    stopped(ELECTED, prepare, why="import of aetcd halted; None in sys.modules")


def test_bi344_an_etcd_that_is_too_old(row, run, logged):
    async def main(brokers):
        brokers.etcd.version = "3.2.32"
        await brokers.start("one")
        await brokers.pair.world.clock.sleep(5)

    run(main)
    row.check(logged.wait_for("this broker takes no part in the election"), "starts", version="3.2.32")


def answered(details, code="UNAVAILABLE", tls=False, **rules):
    """What is said when etcd answers each call with an error. *tls*: expect TLS, which this server has not."""
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("aetcd")

    async def refuse(request, context):
        await context.abort(getattr(grpc.StatusCode, code), details)

    class Handler(grpc.GenericRpcHandler):
        def service(self, call):
            return grpc.unary_unary_rpc_method_handler(refuse)

    async def main():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        world = real_world(worker_threads=1)
        client = EtcdClient(world.clock, EtcdClientSettings(endpoints=(f"127.0.0.1:{port}",), tls=tls, **rules))
        try:
            with pytest.raises(Exception) as raised:
                await client.read(["/gantry/"])
            return str(raised.value), f"127.0.0.1:{port}"
        finally:
            await client.close()
            await server.stop(None)
            await world.workers.close()

    return asyncio.run(main())


def test_bi345_an_etcd_without_a_majority(row):
    seen, address = answered("etcdserver: no leader")
    row.check(seen, "starts", address=address)


def test_bi346_a_wrong_password_of_etcd(row):
    details = "etcdserver: authentication failed, invalid user ID or password"
    seen, address = answered(details, "INVALID_ARGUMENT", user="gantry", password="no")
    row.check(seen, "starts", address=address, user="gantry")


def test_bi347_an_etcd_that_asks_for_a_user(row):
    seen, address = answered("etcdserver: user name is empty", "INVALID_ARGUMENT")
    row.check(seen, "starts", address=address)


def test_bi348_a_user_without_rights(row):
    seen, address = answered("etcdserver: permission denied", "PERMISSION_DENIED")
    row.check(seen, "starts", address=address)


def test_bi349_tls_to_an_etcd_without(row):
    seen, address = answered("", tls=True)
    row.check(seen, "starts", address=address)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_bi350_no_engine(stopped):
    stopped({"enableControllerMode": True})


def test_bi351_two_kinds_of_stand_ins(stopped):
    stopped({**ELECTED, "enableSlaveActingMaster": True})


def test_bi352_settings_of_fixed_roles(row, run, logged):
    async def main(brokers):
        await brokers.start("one", brokerRole="SLAVE", brokerId=-1, haMasterAddress="10.0.0.5:10912")

    run(main)
    given = "brokerRole=SLAVE, brokerId=-1, haMasterAddress=10.0.0.5:10912"
    row.check(logged.wait_for("the role of this broker is elected"), "starts", settings=given)


def test_bi353_a_number_of_copies_to_wait_for(row, run, logged):
    async def main(brokers):
        await brokers.start("one", inSyncReplicas=2)

    run(main)
    row.check(logged.wait_for("the role of this broker is elected"), "starts", least=1, settings="inSyncReplicas=2")


def test_bi354_settings_of_elections_without_elections(row, run, logged):
    async def main(brokers):
        await brokers.pair.start("one", controllerAddr="10.0.0.7:9878")

    run(main)
    row.check(logged.wait_for("without enableControllerMode"), "starts", settings="controllerAddr=10.0.0.7:9878")


def test_bi355_more_copies_in_sync_than_brokers(row, run):
    async def main(brokers):
        one = await brokers.start("one", minInSyncReplicas=3)
        await brokers.start("two", minInSyncReplicas=3)
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        await brokers.pair.world.clock.sleep(2)  # before that slaves are waited for, with 14
        return await refusal(one)

    refused = run(main)
    row.check(str(refused), refused.response_code, count=2, least=3)


def test_bi356_a_store_that_is_lost_with_its_process(stopped):
    stopped({**ELECTED, "store": "memory"})


def test_bi357_a_password_that_every_user_may_read(stopped):
    async def prepare(brokers):
        files = brokers.pair.world.files
        files.make_dirs(Path("/secrets"))
        files.replace(Path("/secrets/etcd"), b"word")
        files.mode = 0o644

    settings = {**ELECTED, "etcdUser": "gantry", "etcdPasswordPath": "/secrets/etcd"}
    stopped(settings, prepare, file="/secrets/etcd", mode="0644")


def test_bi358_a_certificate_without_authorities(stopped):
    stopped({**ELECTED, "etcdCertPath": "/secrets/broker.pem"})


# --- files ------------------------------------------------------------------------------------------------------------


async def was_master(brokers):
    """Let a broker be the master twice, so that the list of its epochs has a backup."""
    for _ in range(2):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(brokers.all["one"]), "master")
        await put(one, 3)
        await one.stop()


def test_bi359_a_damaged_list_of_epochs_and_backup(stopped):
    async def prepare(brokers):
        await was_master(brokers)
        for path in (EPOCHS, Path(f"{EPOCHS}.bak")):
            brokers.pair.world.files.replace(path, b"rubbish")

    stopped(ELECTED, prepare, StoreDamaged, file=EPOCHS)


def test_bi360_a_damaged_list_of_epochs(row, run):
    async def main(brokers):
        await was_master(brokers)
        brokers.pair.world.files.replace(EPOCHS, b"2\n17\n1-0\n2-1500\n")
        one = await brokers.start("one")
        await brokers.pair.world.clock.sleep(10)
        return await refusal(one)

    refused = run(main)
    row.check(str(refused), refused.response_code, file=EPOCHS)


def test_bi361_a_damaged_identity(stopped):
    async def prepare(brokers):
        await was_master(brokers)
        brokers.pair.world.files.replace(IDENTITY, b"DefaultCluster#brok")

    stopped(ELECTED, prepare, StoreDamaged, file=IDENTITY)


def test_bi362_a_store_of_another_set(stopped):
    async def prepare(brokers):
        await was_master(brokers)

    settings = {**ELECTED, "brokerName": "broker-b"}
    stopped(settings, prepare, StoreDamaged, file=IDENTITY, its="broker-a", cluster="DefaultCluster", own="broker-b")


def test_bi363_an_engine_that_knows_less_than_the_log(row, run):
    async def main(brokers):
        await was_master(brokers)
        brokers.etcd.keys.clear()
        one = await brokers.start("one")
        await brokers.pair.world.clock.sleep(10)
        return await refusal(one)

    refused = run(main)
    row.check(str(refused), refused.response_code, known=0, own=2)


def test_bi364_a_copied_identity(row, run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        files = brokers.pair.world.files
        files.make_dirs(Path("/other/store"))
        files.replace(Path("/other/store/brokerIdentity"), files.read(IDENTITY))
        other = await brokers.start("other")
        await brokers.pair.world.clock.sleep(20)
        assert leads(one) and await send(one) == 0
        return await refusal(other), one.broker.registration.address

    refused, address = run(main)
    row.check(str(refused), refused.response_code, id=1, address=address)


def test_bi365_a_disk_that_is_full_when_a_master_begins(row, run, logged):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        full(brokers, Path("/two/store/epochFileCheckpoint"))
        await one.stop()
        await brokers.pair.world.clock.sleep(5)
        return await refusal(two)

    refused = run(main)
    row.check(str(refused), refused.response_code, file=f"{EPOCHS}".replace("one", "two"))


def full(brokers, file):
    """Let *file* be replaced no more."""
    files = brokers.pair.world.files
    replace = files.replace

    def fails(path, content, mode=None):
        if path == file:
            raise OSError(28, "No space left on device", str(path))
        replace(path, content, mode)

    files.replace = fails


# --- the HA port ------------------------------------------------------------------------------------------------------


def test_bi366_another_protocol_at_the_ha_port(closed):
    closed(b"SSH-2.0-OpenSSH_9.2\r\n", bytes=b"SSH-2.0-")


def test_bi367_a_slave_with_a_fixed_role(closed):
    closed(struct.pack(">q", 500), bytes=struct.pack(">q", 500))


def test_bi368_a_handshake_with_another_id(closed):
    closed(handshake(2), handshake(3), id=3, before=2)


def test_bi369_an_acknowledgement_of_what_was_not_sent(closed):
    pieces = handshake(2), struct.pack(">iq", 2, 0), struct.pack(">iq", 2, 1 << 40)
    closed(*pieces, beginning="slave {}, broker id 2, is gone", offset=1 << 40, end=LOG_END)


def test_bi370_a_slave_of_elected_roles_at_a_master_with_a_fixed_one(row, logged):
    async def main(pair):
        master = await pair.master()
        await put(master, 3)
        return await sent(pair, master, handshake(2))

    peer = simulate_pair(main)
    row.check(logged.wait_for(f"slave {peer} is gone"), "closed", peer=peer)


def test_bi371_a_log_of_fixed_roles(row, run):
    async def main(brokers):
        fixed = await brokers.pair.master("two")
        await put(fixed, 5, topic="Own")
        last = end(fixed)
        await fixed.stop()
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        await put(one, 20)
        two = await brokers.start("two", namesrv=one.namesrv)
        await brokers.until(lambda: "differs" in elected(two).copy.problem, "refusal")
        return elected(two).copy.problem, ha_address(one), last

    seen, address, last = run(main)
    row.check(seen, "starts", address=address, place=3, end=last)


def test_bi372_a_master_of_an_older_epoch(row, run, logged):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        older = elected(one)._epoch
        machine = elected(two).machine
        machine._standing = machine.standing._replace(epoch=9)
        machine.epoch = 9
        await elected(two).copy.end()
        await elected(two).follow(Follow(1, 9, one.broker.registration.address, ha_address(one)))
        await brokers.until(lambda: "epoch" in elected(two).copy.problem, "refusal")
        return elected(two).copy.problem, ha_address(one), older

    seen, address, older = run(main)
    row.check(seen, "starts", address=address, epoch=older, known=9)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_bi373_a_controller_for_brokers_that_etcd_elects(row, run):
    pytest.importorskip("gantrymq_admin")
    from gantrymq.client import Client
    from gantrymq.errors import ClientError
    from gantrymq_admin.commands.cluster_masters import names_of
    from gantrymq_admin.elected import ask_set

    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        async with Client(one.namesrv, world=brokers.pair.world) as client, client.admin as admin:
            (name,) = await names_of(admin, "broker-a")
            assert (await ask_set(admin, name)).controllers == ()
            with pytest.raises(ClientError) as refused:
                await ask_set(admin, name, ["10.0.0.7:9878"])
        return str(refused.value)

    row.check(run(main), "exit 1", address="10.0.0.7:9878")


def test_bi374_an_identity_file_of_another_broker_on_this_machine(stopped, run):
    shared = {**ELECTED, "storePathBrokerIdentity": "/shared/brokerIdentity"}

    async def prepare(brokers):
        two = await brokers.start("two", **shared)
        await brokers.until(lambda: leads(two), "master")

    stopped(shared, prepare, file="/shared/brokerIdentity")

    async def main(brokers):
        for name in ("one", "two"):
            broker = await brokers.start(name, **shared)
            await brokers.until(lambda each=broker: elected(each).election.own_id == 1, "id")
            await broker.stop()  # which releases it

    run(main)


def test_bi375_a_slave_with_an_id_that_no_broker_has(closed):
    closed(handshake(7), struct.pack(">iq", 2, 0), id=7)


def test_bi379_a_member_that_did_not_stop_cleanly(row, run):
    async def main(brokers):
        settings = {"minInSyncReplicas": 2, "flushDiskType": "ASYNC_FLUSH"}
        one, two = await two_in_sync(brokers, **settings)
        await two.stop()
        await one.stop()
        brokers.pair.world.files.replace(Path("/one/store/abort"), b"1")  # as a kill leaves it
        one = await brokers.start("one", **settings)
        await brokers.pair.world.clock.sleep(30)
        return await refusal(one)

    refused = run(main)
    row.check(str(refused), refused.response_code, id=1, least=2, missing=2)


def test_bi380_a_slave_that_is_older_than_the_first_file_of_its_master(row, run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, fileReservedTime=0)
        await put(one, 20)
        await brokers.until(lambda: end(one) == end(two) == elected(two).confirmed, "equal logs")
        await two.stop()
        old = end(one)
        await put(one, 600)
        await one.store.clean(Cleaning.EXPIRED_LOG)
        first = end(one) // 65536 * 65536
        await brokers.until(lambda: one.store.raw_log.log_range().min_offset == first, "deleted files")
        two = await brokers.start("two", fileReservedTime=0)
        await brokers.until(lambda: "has deleted what follows" in elected(two).copy.problem, "refusal")
        return elected(two).copy.problem, ha_address(one), old, first

    seen, address, old, first = run(main)
    row.check(seen, "starts", address=address, end=old, first=first)
