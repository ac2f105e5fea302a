"""Official clients and the official mqadmin 4.9.7 at our broker with plain_acl.yml."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, MqAdmin, Process, gantrymq

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
TOPIC = "Plain"
GROUP = "plain-readers"
SECRET = "a-secret-of-all"
ACCOUNTS = f"""\
accounts:
- accessKey: operator
  secretKey: {SECRET}
  admin: true
- accessKey: writers
  secretKey: {SECRET}
  topicPerms: [{TOPIC}=PUB]
- accessKey: readers
  secretKey: {SECRET}
  topicPerms: [{TOPIC}=SUB]
  groupPerms: [{GROUP}=SUB]
"""
CLIENTS = ("5.3.3",)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Return our servers with a topic."""
    scratch = tmp_path_factory.mktemp("plain")
    file = scratch / "home" / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True)
    file.write_text(ACCOUNTS)
    file.chmod(0o600)
    settings = {"aclEnable": "true", "aclHome": str(scratch / "home")}
    with GantryServer.both(scratch, settings=settings) as server:
        account = {"GANTRYMQ_ACCESS_KEY": "operator", "GANTRYMQ_SECRET_KEY": SECRET}
        gantrymq(scratch, "topic", "create", TOPIC, "-n", server.namesrv, environ=account)
        yield server


def java(version: str, guarded: GantryServer, scratch: Path, key: str, secret: str = SECRET) -> Driver:
    """Return a Java client with an account; without a key it signs nothing."""
    account = {"interop.accessKey": key, "interop.secretKey": secret} if key else {}
    folder = scratch / (key or "nobody")
    folder.mkdir()
    return Driver(version, folder, guarded.namesrv, properties=account)


@pytest.mark.parametrize("version", CLIENTS)
def test_java_clients_do_what_their_accounts_may(
    version: str, guarded: GantryServer, tmp_path: Path, running: Running
) -> None:
    writer, reader = (java(version, guarded, tmp_path, key) for key in ("writers", "readers"))
    consumer = running(reader.push(TOPIC, GROUP))
    sent = [
        *writer.produce(TOPIC, 20, "sync", body_prefix=version),
        *writer.produce(TOPIC, 20, "batch", body_prefix=f"batch{version}"),
    ]
    received = wait_for_bodies([consumer], sent)
    ours = [e for e in received if version in e["body"]]
    assert sorted(e["body"] for e in ours) == sorted(e["body"] for e in sent)
    assert_same_messages(sent[:20], [e for e in ours if not e["body"].startswith("batch")])


@pytest.mark.parametrize("version", CLIENTS)
@pytest.mark.parametrize(
    ("key", "secret"),
    [("readers", SECRET), ("writers", "another-secret"), ("strangers", SECRET), ("", "")],
    ids=["may only read", "a wrong secret", "an unknown account", "no account"],
)
def test_a_java_client_is_refused(version: str, key: str, secret: str, guarded: GantryServer, tmp_path: Path) -> None:
    """It tries three times, as at Java's brokers, and shows the code only."""
    client = java(version, guarded, tmp_path, key, secret)
    with pytest.raises(RuntimeError, match='"code":1,'):
        client.produce(TOPIC, 1)


def test_the_official_tools_manage_accounts(guarded: GantryServer, tmp_path: Path) -> None:
    conf = tmp_path / "mqadmin" / "conf"
    conf.mkdir(parents=True)
    (conf / "logback_tools.xml").write_text("<configuration/>")
    (conf / "tools.yml").write_text(f"accessKey: operator\nsecretKey: {SECRET}\n")
    where = ("-n", guarded.namesrv, "-b", guarded.broker_address)
    with MqAdmin("4.9.7", tmp_path, guarded.namesrv) as tool:
        made = tool.run("updateAclConfig", *where, "-a", "newuser1", "-s", "newsecret", "-t", f"{TOPIC}=PUB")
        assert f"create or update plain access config to {guarded.broker_address} success" in made
        java("5.3.3", guarded, tmp_path, "newuser1", "newsecret").produce(TOPIC, 1)
        short = tool.run("updateAclConfig", *where, "-a", "short", "-s", "newsecret")
        assert "CODE: 209" in short and "The accessKey=short" in short
        white = tool.run("updateGlobalWhiteAddr", *where, "-g", "10.10.103.*,10.10.104.1")
        assert f"update global white remote addresses to {guarded.broker_address} success" in white
        shown = tool.run("getAclConfig", *where)
        assert "globalWhiteRemoteAddresses: [10.10.103.*, 10.10.104.1]" in shown
        assert re.search(r"accessKey +: newuser1", shown)
        version = tool.run("clusterAclConfigVersion", *where)
        assert "plain_acl.yml" in version and "get broker's plain access config version success" in version
        gone = tool.run("deleteAclConfig", *where, "-a", "newuser1")
        assert f"delete plain access config account from {guarded.broker_address} success" in gone
        assert "newuser1" not in tool.run("getAclConfig", *where)
