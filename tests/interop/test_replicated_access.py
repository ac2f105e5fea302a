"""Masters, slaves and elected brokers with access control: ours sign their requests to Java's, and Java's to ours."""

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from accounts import GUARDED, INNER
from elected_set import ElectedSet
from etcd_servers import start_etcd
from harness import GantryServer, JavaBroker, JavaNameServer, MqAdmin, Process
from harness.probe import request
from java_controllers import start_controllers
from polling import wait_until
from test_access import GUARDS
from test_slave_tables import _first

from gantrymq.client import Client, Credentials, Message
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request as command
from gantrymq.remoting.signatures import Signer
from gantrymq.world.real import real_world

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
ACCOUNT = Credentials(INNER["accessKey"], INNER["secretKey"])
INNER_TEXT = json.dumps(INNER)
OF_JAVA = {
    **GUARDS["5.3.3"],
    "initAuthenticationUser": json.dumps({"username": INNER["accessKey"], "password": INNER["secretKey"]}),
    "innerClientAuthenticationCredentials": INNER_TEXT,
}
SIGNED = {"innerClientAuthenticationCredentials": INNER_TEXT}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
SIZE = {"mappedFileSizeCommitLog": "1048576"}
MINUTES_S = 150.0  # a Java slave copies tables after a minute
OURS_S = 40.0


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, str]:
    """Return the environment in which our servers find the test authorizer."""
    installed = tmp_path / "installed"
    info = installed / "accounts_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: accounts_plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantrymq]\naccounts = accounts_plugin\n")
    (installed / "accounts_plugin.py").write_text(
        "from gantrymq.plugin import hookimpl\nfrom accounts import AccountsPlugin\n\n"
        "plugin = AccountsPlugin()\n"
        "gantry_register_config = hookimpl(lambda registry: plugin.gantry_register_config(registry))\n"
        "gantry_register_authorizers = hookimpl(lambda registry: plugin.gantry_register_authorizers(registry))\n"
    )
    return {"PYTHONPATH": f"{installed}:{Path(__file__).parents[1] / 'support'}"}


async def _create_and_send(namesrv: str, topic: str, count: int) -> None:
    async with Client(namesrv, credentials=ACCOUNT) as client:
        (address,) = (await client.admin.clusters()).masters("DefaultCluster")
        await client.admin.create_topic(address, TopicConfig(topic, 2, 2))
        await client.wait_ready(topic)
        for number in range(count):
            await client.producer("P").send(Message(topic, b"%d" % number))


def made(namesrv: str, topic: str, count: int = 5) -> None:
    """Create *topic* and send messages, with the account."""
    asyncio.run(_create_and_send(namesrv, topic, count))


def refused(address: str, topic: str) -> bool:
    """Return whether a send without an account is refused."""
    fields = {
        "producerGroup": "P",
        "topic": topic,
        "queueId": "0",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
    }
    more = {"sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
    return request(address, 10, {**fields, **more}, b"unsigned")[0]["code"] == 16


def test_our_slave_copies_a_java_master_with_access_control(tmp_path: Path, topic: str) -> None:
    guards = {**OF_JAVA, "authConfigPath": str(tmp_path / "auth")}
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker("5.3.3", tmp_path / "java", namesrv.address, settings=guards, keep=False) as master,
    ):
        made(namesrv.address, topic)
        assert refused(master.address, topic)
        with GantryServer.broker(tmp_path / "ours", namesrv.address, settings={**SLAVE, **SIZE, **SIGNED}) as ours:
            topics = _first(ours.store / "config", "topics.json", topic, OURS_S)
            assert topics["topicConfigTable"][topic]["readQueueNums"] == 2
        with GantryServer.broker(tmp_path / "other", namesrv.address, settings={**SLAVE, **SIZE}) as unsigned:
            wait_until(
                lambda: "set innerClientAuthenticationCredentials of this server" in unsigned.tail(),
                "the missing setting",
                OURS_S,
                unsigned.tail,
            )
            assert not any((unsigned.store / "commitlog").iterdir())


@pytest.mark.long
def test_a_java_slave_copies_our_master_with_access_control(tmp_path: Path, topic: str, plugin: dict[str, str]) -> None:
    guards = {**OF_JAVA, "authConfigPath": str(tmp_path / "auth")}
    with GantryServer.both(tmp_path / "ours", settings={**GUARDED, **SIGNED}, environ=plugin) as ours:
        made(ours.namesrv, topic)
        assert refused(ours.broker_address, topic)
        slave = {**SLAVE, "brokerName": socket.gethostname(), "timerWheelEnable": "true", **guards}
        with JavaBroker("5.3.3", tmp_path / "java", ours.namesrv, settings=slave, keep=False) as java:
            topics = _first(java.store / "config", "topics.json", topic, MINUTES_S)
            assert topics["topicConfigTable"][topic]["readQueueNums"] == 2


def test_an_elected_set_with_access_control_on_java_controllers(
    running: Running, tmp_path: Path, topic: str, plugin: dict[str, str]
) -> None:
    """Ours replaces a Java master, and refuses what that refused. Both sign, to each other and to the controller."""
    brokers = ElectedSet(running, tmp_path)
    brokers.environ = plugin
    brokers.start("java", **OF_JAVA, authConfigPath=str(tmp_path / "auth"))
    wait_until(lambda: (found := brokers.standing()) is not None and found.master == 1, "a master", 60, brokers.tails)
    wait_until(lambda: _is_there(brokers.namesrv), "its registration", 60, brokers.tails)
    made(brokers.namesrv, topic)
    brokers.start("ours", **GUARDED, **SIGNED)
    brokers.wait_for_set("java", "ours")
    brokers.kill("java")
    wait_until(lambda: (found := brokers.standing()) is not None and found.master == 2, "ours", 60, brokers.tails)
    wait_until(lambda: refused(brokers.address("ours"), topic), "a refusal", 30, brokers.tails)
    wait_until(lambda: _sends(brokers.namesrv, topic), "a send with the account", 60, brokers.tails)
    brokers.start("java", **OF_JAVA, authConfigPath=str(tmp_path / "auth"))
    brokers.wait_for_set("java", "ours")


def _is_there(namesrv: str) -> bool:
    async def asked() -> bool:
        async with Client(namesrv, credentials=ACCOUNT) as client:
            return len((await client.admin.clusters()).masters("DefaultCluster")) == 1

    try:
        return asyncio.run(asked())
    except Exception:
        return False


def _sends(namesrv: str, topic: str) -> bool:
    async def sent() -> bool:
        async with Client(namesrv, credentials=ACCOUNT) as client:
            return (await client.producer("P").send(Message(topic, b"signed"), timeout_s=5)).ok

    try:
        return asyncio.run(sent())
    except Exception:
        return False


def test_a_java_broker_registers_at_our_name_server_with_access_control(tmp_path: Path, topic: str) -> None:
    """Its registrations, heartbeats and unregistration are signed. Without an account nobody registers or changes."""
    records, state = (pytest.importorskip(f"gantrymq_access.{name}") for name in ("records", "state"))
    users = tmp_path / "users" / "users.json"
    users.parent.mkdir()
    inner = records.User(ACCOUNT.access_key, ACCOUNT.secret_key, records.UserType.SUPER)
    users.write_text(state.users_text([inner]))
    users.chmod(0o600)
    control = {"authorizer": "acl", "authenticationEnabled": "true", "authorizationEnabled": "true"}
    guards = {**OF_JAVA, "authConfigPath": str(tmp_path / "auth")}
    names = GantryServer.name_server(tmp_path / "namesrv", settings={**control, "accessPath": str(users.parent)})
    with names, JavaBroker("5.3.3", tmp_path / "java", names.namesrv, settings=guards, keep=False):
        made(names.namesrv, topic)  # the broker registers the topic
        for code in (103, 104, 205, 318):  # registration, unregistration, write permission, settings
            assert request(names.namesrv, code, {"brokerName": "broker-a"})[0]["code"] == 16, code


def _of_controller(running: Running, folder: Path) -> dict[str, str]:
    [found] = start_controllers(running, folder, 1)
    return {"controllerAddr": found.address}


def _of_etcd(running: Running, folder: Path) -> dict[str, str]:
    [found] = start_etcd(running, folder, 1)
    return {"electionEngine": "etcd", "etcdEndpoints": found.endpoint, "etcdLeaseSeconds": "3"}


@pytest.mark.parametrize(
    "engine",
    [pytest.param(_of_controller, id="controllers", marks=pytest.mark.long), pytest.param(_of_etcd, id="etcd")],
)
def test_the_next_master_refuses_what_the_last_one_refused(
    running: Running, tmp_path: Path, engine: Callable[[Running, Path], dict[str, str]]
) -> None:
    """mqadmin creates two users at the master and deletes one; then the master is killed."""
    pytest.importorskip("gantrymq_access")
    settings = {
        "enableControllerMode": "true",
        "minInSyncReplicas": "1",
        "authorizer": "acl",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": OF_JAVA["initAuthenticationUser"],
        **SIZE,
        **SIGNED,
        **engine(running, tmp_path),
    }
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    one = running(GantryServer.broker(tmp_path / "one", namesrv, settings=settings))
    wait_until(lambda: _code(one.broker_address, ACCOUNT) == 0, "the first users", 60, one.tail)
    two = running(GantryServer.broker(tmp_path / "two", namesrv, settings=settings))
    wait_until(lambda: _code(two.broker_address, ACCOUNT) == 0, "the users of the master", 60, two.tail)
    (tmp_path / "mqadmin" / "conf").mkdir(parents=True)
    (tmp_path / "mqadmin" / "conf" / "tools.yml").write_text(
        f"accessKey: {ACCOUNT.access_key}\nsecretKey: {ACCOUNT.secret_key}\n"
    )
    mqadmin = running(MqAdmin("5.3.3", tmp_path, namesrv))
    kept, gone = Credentials("kept-user", "kept-secret"), Credentials("gone-user", "gone-secret")
    at = ("-n", namesrv, "-b", one.broker_address)
    for user in (kept, gone):
        mqadmin.run("createUser", *at, "-u", user.access_key, "-p", user.secret_key, "-t", "Normal")
        assert _code(one.broker_address, user) == _code(two.broker_address, user) == 0
    mqadmin.run("deleteUser", *at, "-u", gone.access_key)
    one.kill()
    assert (_code(two.broker_address, kept), _code(two.broker_address, gone)) == (0, 16)
    wait_until(lambda: _changes(two.broker_address), "a change of users at the next master", 60, two.tail)
    assert (_code(two.broker_address, kept), _code(two.broker_address, gone)) == (0, 16)


def _code(address: str, account: Credentials) -> int:
    """Return the code of a signed heartbeat, which every user may send."""
    return _ask(address, account, 34, None, b'{"clientID":"c","producerDataSet":[],"consumerDataSet":[]}')


def _changes(address: str) -> bool:
    """Return whether a broker creates a user: it is the master."""
    return _ask(address, ACCOUNT, 3001, {"username": "later"}, b'{"password":"later-secret"}') == 0


def _ask(address: str, account: Credentials, code: int, ext: dict[str, str] | None, body: bytes) -> int:
    async def asked() -> int:
        client = RemotingClient(real_world(), sign=Signer(account).sign)
        try:
            return (await client.call(address, command(code, ext, body), 5)).code
        finally:
            await client.close()

    return asyncio.run(asked())
