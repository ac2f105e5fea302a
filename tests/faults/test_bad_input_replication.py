"""What is sent to an HA port, masters that do not fit, and settings of replication; in a simulated world."""

import asyncio
import contextlib
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from accounts import GUARDED, AccountsPlugin
from certificates import make_certificate
from ha_pairs import end, ha_address, problem, put, simulate_pair

from gantrymq.errors import ConfigError, RequestRefused
from gantrymq.interfaces import SendRequest
from gantrymq_replication import slave_log
from gantrymq_replication.gate import START_S

PORT = 20000


@pytest.fixture
def closed(row, logged):
    """Send something to the HA port of a master with some records, which closes the connection and logs why.

    *what* makes the pieces of the master's end, and *values* the values of the row.
    """

    def check(what, values, secret=b"", **settings):
        async def main(pair):
            if secret:
                settings["haSecretPath"] = secret_file(pair, secret)
            master = await pair.master(**settings)
            await put(master, 3)
            last = end(master)
            reader, writer = await pair.connect(master)
            peer = "{}:{}".format(*writer.get_extra_info("sockname"))
            with contextlib.suppress(OSError):
                for piece in what(last):
                    writer.write(piece)
                    await pair.world.clock.sleep(0.5)
                while await reader.read(1 << 16):
                    pass
            await put(master, 1)
            return peer, last

        peer, last = simulate_pair(main)
        row.check(logged.wait_for(f"slave {peer} is gone"), "closed", peer=peer, **values(last))

    return check


BEFORE_A_MASTER_ANSWERS = ("", "it is no slave", "it has not connected to its master yet")


@pytest.fixture
def refused(row, logged):
    """Start a slave; check why it does not follow. *start* returns it and the values of the row."""

    def check(start):
        async def main(pair):
            slave, values = await start(pair)
            await pair.until(lambda: problem(slave) not in BEFORE_A_MASTER_ANSWERS, "a reason", 60)
            return problem(slave), values

        seen, values = simulate_pair(main)
        row.check(seen, "starts", **{name: value(seen) if callable(value) else value for name, value in values.items()})

    return check


def _client_in(sentence):
    """The address of a connection in *sentence*."""
    return re.search(r"Client:(\S+)", sentence)[1]


@pytest.fixture
def stopped(row, logged):
    """The start of a broker with some settings ends with a sentence."""

    def check(settings, prepare=lambda pair: None, **values):
        async def main(pair):
            prepare(pair)
            await pair.world.network.listen("127.0.0.1", PORT, asyncio.Protocol)
            with pytest.raises(ConfigError) as raised:
                await pair.start("broker", **settings)
            return str(raised.value)

        row.check(simulate_pair(main), "exit 1", **values)

    return check


def secret_file(pair, secret=b"secret of the cluster", mode=0o600):
    """Write a file with a secret and return its path; *mode* is that of all files."""
    path = Path(f"/secrets/{len(secret)}")
    pair.world.files.make_dirs(path.parent)
    pair.world.files.replace(path, secret)
    pair.world.files.mode = mode
    return str(path)


def number(value):
    return value.to_bytes(8, "big", signed=True)


async def served(pair, data, *, ends=False):
    """The address of a server that sends *data* to everybody; if it *ends*, it closes the connection after a report."""

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            transport.write(data)

        def data_received(self, report):
            if ends:
                self.transport.close()

    await pair.world.network.listen("127.0.0.1", PORT, Server)
    return f"127.0.0.1:{PORT}"


def test_bi291_another_protocol_at_the_ha_port(closed):
    closed(lambda last: [b"SSH-2.0-Go\r\n"], lambda last: {"bytes": b"SSH-2.0-"})


def test_bi292_a_report_after_the_end_of_the_log(closed):
    closed(lambda last: [number(last + 1)], lambda last: {"start": last + 1, "end": last})


def test_bi293_a_negative_report(closed):
    closed(lambda last: [number(-5)], lambda last: {"bytes": number(-5)})


def test_bi294_an_acknowledgement_of_what_was_not_sent(closed):
    closed(lambda last: [number(0), number(last + 100)], lambda last: {"offset": last + 100, "end": last})


def test_bi295_a_negative_acknowledgement(closed):
    closed(lambda last: [number(0), number(-1)], lambda last: {"offset": -1, "end": last})


def test_bi296_a_connection_that_says_nothing(closed):
    closed(lambda last: [b"\0\0\0"], lambda last: {})


def test_bi297_a_master_that_is_none(refused):
    async def start(pair):
        address = await served(pair, b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return await pair.slave(address), {
            "address": address,
            "size": int.from_bytes(b" 400", "big"),
            "offset": int.from_bytes(b"HTTP/1.1", "big"),
        }

    refused(start)


def test_bi298_a_gap_in_what_a_master_sends(refused):
    async def start(pair):
        address = await served(pair, (0).to_bytes(8, "big") + (1).to_bytes(4, "big") + b"x" + (9).to_bytes(12, "big"))
        return await pair.slave(address), {"address": address, "offset": 0, "expected": 1}

    refused(start)


def test_bi299_a_master_with_log_files_of_another_size(refused):
    async def start(pair):
        master = await pair.master()
        await put(master, 300)
        slave = await pair.slave(master, mappedFileSizeCommitLog=131072)
        await pair.until(lambda: "mappedFileSizeCommitLog" in problem(slave), "refusal")
        why = problem(slave).split("does not fit: ")[1].split("; both logs")[0]
        return slave, {"address": ha_address(master), "why": why}

    refused(start)


async def diverged(pair, mine, its):
    """A slave that was a master for *mine* messages, while its master got *its*."""
    master = await pair.master()
    slave = await pair.slave(master)
    await put(master, 5)
    await pair.equal(master, slave)
    common = end(master)
    await slave.stop()
    alone = await pair.start("slave", brokerName="broker-b")
    await put(alone, mine, topic="Own")
    await alone.stop()
    await put(master, its)
    return master, await pair.slave(master), common


def test_bi300_a_slave_with_a_longer_log(refused):
    async def start(pair):
        master, slave, common = await diverged(pair, 1, 0)
        return slave, {"address": ha_address(master), "own": end(slave), "end": common}

    refused(start)


def test_bi301_a_slave_with_a_different_log(refused):
    async def start(pair):
        master, slave, _ = await diverged(pair, 2, 2)
        await pair.until(lambda: "differs" in problem(slave), "refusal")
        place = int(problem(slave).split(" at ")[1].split(" ")[0])
        return slave, {"address": ha_address(master), "offset": place, "own": end(slave)}

    refused(start)


def test_bi302_a_slave_without_a_master(refused):
    async def start(pair):
        master = await pair.master()
        other = await pair.start("slave", master.namesrv, brokerRole="SLAVE", brokerId=1, brokerClusterName="Other")
        return other, {"broker": "broker-a", "cluster": "Other"}

    refused(start)


def test_bi303_an_ha_address_that_is_none(stopped):
    stopped({"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": "nowhere"}, where="the test", text="nowhere")


def test_bi304_an_ha_port_that_is_taken(stopped):
    stopped({"haListenPort": PORT}, port=PORT)


# --- a shared secret -------------------------------------------------------------------------------------------------


def test_bi305_a_slave_without_the_secret(closed):
    closed(lambda last: [number(last)], lambda last: {}, secret=b"secret of the cluster")


def test_bi306_a_master_that_asks_for_a_secret(refused):
    async def start(pair):
        master = await pair.master(haSecretPath=secret_file(pair))
        return await pair.slave(master), {"address": ha_address(master)}

    refused(start)


def test_bi307_a_slave_with_another_secret(closed):
    closed(lambda last: [bytes(64)], lambda last: {}, secret=b"secret of the cluster")


def test_bi308_a_master_with_another_secret(refused):
    async def start(pair):
        master = await pair.master(haSecretPath=secret_file(pair))
        slave = await pair.slave(master, haSecretPath=secret_file(pair, b"secret of another cluster"))
        return slave, {"address": ha_address(master)}

    refused(start)


def test_bi309_a_master_that_asks_for_no_secret(refused):
    async def start(pair):
        master = await pair.master()
        slave = await pair.slave(master, haSecretPath=secret_file(pair))
        return slave, {"address": ha_address(master)}

    refused(start)


def test_bi310_a_secret_that_everybody_may_read(stopped):
    file = "/secrets/21"
    stopped({"haSecretPath": file}, lambda pair: secret_file(pair, mode=0o644), file=file, mode="0644")


def test_bi311_a_secret_that_is_too_short(stopped):
    file = "/secrets/5"
    stopped({"haSecretPath": file}, lambda pair: secret_file(pair, b"short"), file=file, size=5)


def test_bi312_a_secret_that_does_not_exist(stopped):
    stopped({"haSecretPath": "/secrets/none"}, file="/secrets/none")


# --- slaves that compare nothing -------------------------------------------------------------------------------------


def test_bi313_a_rocketmq_slave_with_a_different_log(row, logged, monkeypatch):
    """The slave is one of ours that serves requests, and a connection that reports the end of its log."""

    async def tells_not(self, slave):
        return False

    monkeypatch.setattr(slave_log.SlaveLogs, "_compares", tells_not)
    monkeypatch.setattr(slave_log, "_NO_MESSAGE", "no message starts at log offset")

    async def main(pair):
        master, slave, _ = await diverged(pair, 2, 2)
        await slave.stop()
        slave = await pair.start("slave", master.namesrv, brokerRole="SLAVE", brokerId=1, haMasterAddress="127.0.0.1:1")
        reader, writer = await pair.connect(master)
        peer = "{}:{}".format(*writer.get_extra_info("sockname"))
        writer.write(number(end(slave)))
        with contextlib.suppress(OSError):
            assert await reader.read(1) == b""
        writer.close()
        offset, _ = await slave_log.last_message(master.store.raw_log, end(slave), pair.world.clock)
        return {"peer": peer, "end": end(slave), "offset": offset, "address": slave.broker.registration.address}

    values = simulate_pair(main)
    row.check(logged.wait_for(f"slave {values['peer']} is gone"), "closed", **values)


# --- TLS on one side -------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path):
    """The settings of a master with TLS."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    make_certificate(tmp_path, "master")
    path = tmp_path / "master"
    return {"haTlsEnable": True, "tls.server.certPath": f"{path}.pem", "tls.server.keyPath": f"{path}.key"}


def test_bi314_a_slave_with_tls_at_a_master_without(closed):
    closed(lambda last: [bytes.fromhex("16030102000100") + bytes(512)], lambda last: {})


def test_bi315_a_slave_with_tls_of_a_master_without(refused, certificate):
    async def start(pair):
        master = await pair.master()
        return await pair.slave(master, **certificate), {"address": ha_address(master)}

    refused(start)


def test_bi316_a_slave_without_tls_at_a_master_with_it(row, logged, certificate, caplog):
    async def main(pair):
        master = await pair.master(**certificate)
        await pair.slave(master)
        await pair.world.clock.sleep(30)

    simulate_pair(main)
    seen = logged.wait_for("a connection of 127.0.0.1")
    assert caplog.text.count("to the HA port is refused") == 1  # of many
    row.check(seen, "closed", why=seen.split("handshake failed: ")[1].split(";")[0])


# --- reports and transfers -------------------------------------------------------------------------------------------


def test_bi317_an_acknowledgement_that_goes_back(closed):
    closed(lambda last: [number(0), number(last), number(5)], lambda last: {"offset": 5, "before": last})


def test_bi318_half_a_transfer(refused):
    async def start(pair):
        address = await served(pair, (0).to_bytes(8, "big") + (100).to_bytes(4, "big") + b"xyz", ends=True)
        return await pair.slave(address), {"address": address}

    refused(start)


# --- addresses, names and ids ----------------------------------------------------------------------------------------


def test_bi319_the_port_of_a_broker(refused):
    async def start(pair):
        master = await pair.master()
        address = master.broker.registration.address
        return await pair.slave(address), {"address": address}

    refused(start)


def test_bi320_an_address_where_nothing_listens(refused):
    async def start(pair):
        return await pair.slave("127.0.0.1:1"), {"address": "127.0.0.1:1"}

    refused(start)


def test_bi321_its_own_address(stopped):
    own = "127.0.0.1:20001"
    settings = {"brokerRole": "SLAVE", "brokerId": 1, "listenPort": 20001, "haMasterAddress": own}
    stopped(settings, address=own)


def test_bi322_a_master_of_another_name(row, logged):
    async def main(pair):
        master = await pair.master()
        await put(master, 3)
        settings = {"brokerName": "broker-b", "brokerRole": "SLAVE", "brokerId": 1}
        slave = await pair.start("slave", master.namesrv, haMasterAddress=ha_address(master), **settings)
        await pair.equal(master, slave)
        await pair.world.clock.sleep(60)

    simulate_pair(main)
    seen = logged.wait_for("the tables of the master are not copied")
    row.check(seen, "starts", broker="broker-b", cluster="DefaultCluster")


def test_bi334_another_ha_address_than_name_servers_tell(refused):
    async def start(pair):
        master = await pair.master()
        other = await pair.start("other", master.namesrv, brokerName="broker-b")
        await put(other, 3)
        address = ha_address(other)
        settings = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": address}
        slave = await pair.start("slave", master.namesrv, **settings)
        return slave, {"address": address, "broker": "broker-a", "told": ha_address(master)}

    refused(start)


def test_bi335_log_files_of_another_size(refused):
    async def start(pair):
        master = await pair.master()
        settings = {"brokerRole": "SLAVE", "brokerId": 1, "mappedFileSizeCommitLog": 131072}
        slave = await pair.start("slave", master.namesrv, **settings)
        return slave, {"address": ha_address(master), "its": 65536, "own": 131072}

    refused(start)


def test_bi336_a_damaged_copy(refused):
    async def start(pair):
        master = await pair.master()
        await put(master, 20)
        slave = await pair.slave(master)
        await pair.equal(master, slave)
        await slave.stop()
        log = Path("/slave/store/commitlog/00000000000000000000")
        data = bytearray(pair.world.files.read(log))
        data[5000:5010] = b"\xaa" * 10
        pair.world.files.replace(log, bytes(data))
        await slave.start()
        return slave, {"address": ha_address(master), "offset": 5000}

    refused(start)


@pytest.fixture
def rivals(row, logged):
    """Start two brokers of one name server with the same settings; the name server says so."""

    def check(**settings):
        async def main(pair):
            names = await pair.start("names", brokerName="broker-x")
            return [
                (await pair.start(root, names.namesrv, **settings)).broker.registration.address
                for root in ("one", "other")
            ]

        one, other = simulate_pair(main)
        seen = logged.wait_for("two brokers are registered")
        values = {"id": settings["brokerId"]} if "brokerId" in settings else {}
        row.check(seen, "starts", broker="broker-a", one=one, other=other, **values)

    return check


def test_bi323_two_masters_of_one_name(rivals):
    rivals()


def test_bi324_two_slaves_with_one_id(rivals):
    rivals(brokerRole="SLAVE", brokerId=3)


def test_bi325_a_slave_with_the_id_of_a_master(stopped):
    stopped({"brokerRole": "SLAVE"})


def test_bi326_a_master_with_the_id_of_a_slave(stopped):
    stopped({"brokerRole": "SYNC_MASTER", "brokerId": 2}, id=2, role="SYNC_MASTER")


# --- settings that cannot work ---------------------------------------------------------------------------------------


def test_bi327_a_role_that_does_not_exist(stopped):
    stopped({"brokerRole": "MASTER"}, where="the test", role="MASTER")


def test_bi328_transfers_that_no_rocketmq_slave_can_read(stopped):
    stopped({"haTransferBatchSize": 8 << 20}, where="the test", size=8 << 20)


def test_bi329_a_slave_without_the_plugin(program, row):
    row.check(*program.refusal("--set", "brokerRole=SLAVE", "--set", "plugins=storage_mmap"))


def test_bi330_a_store_that_cannot_be_copied(stopped, monkeypatch):
    store = pytest.importorskip("gantrymq_storage_mmap.store")
    monkeypatch.setattr(store.MmapStore, "raw_log", None)
    stopped({"brokerRole": "SLAVE", "brokerId": 1})


def test_bi331_more_copies_to_wait_for_than_there_are(row):
    async def main(pair):
        master = await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=2)
        await pair.world.clock.sleep(START_S)
        return (await master.broker.messages.send(SendRequest("p", "Orders", b"body"))).unconfirmed

    unconfirmed = simulate_pair(main)
    row.check(str(unconfirmed), unconfirmed.response_code)


def test_bi332_more_copies_in_sync_than_there_are(row):
    async def main(pair):
        master = await pair.master(minInSyncReplicas=2)
        with pytest.raises(RequestRefused) as refused:
            await master.broker.messages.send(SendRequest("p", "Orders", b"body"))
        return refused.value

    refusal = simulate_pair(main)
    row.check(str(refusal), refusal.response_code, count=1, least=2)


def test_bi333_a_least_number_of_copies_that_is_not_waited_for(row, logged):
    async def main(pair):
        await pair.master(brokerRole="SYNC_MASTER", inSyncReplicas=2, minInSyncReplicas=3)

    simulate_pair(main)
    row.check(logged.wait_for("minInSyncReplicas"), "starts", least=3, count=2)


# --- access control ---------------------------------------------------------------------------------------------------


def test_bi384_a_slave_without_an_account(refused):
    async def start(pair):
        pair.plugins = [("accounts", AccountsPlugin())]
        master = await pair.master(**GUARDED)
        slave = await pair.start("slave", master.namesrv, brokerRole="SLAVE", brokerId=1, **GUARDED)
        return slave, {"address": ha_address(master), "broker": master.broker_address, "client": _client_in}

    refused(start)
