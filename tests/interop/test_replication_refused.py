"""Copies with brokers of RocketMQ that are refused: haSecretPath, which they do not have, and logs that differ.

Nothing is copied, and no log is damaged.
"""

import asyncio
from pathlib import Path

import pytest
from harness import GantryServer, JavaBroker, create_topic, gantrymq
from polling import wait_until
from test_replication import EQUAL_S, OURS, SLAVE, Running, log_files, send, start

pytestmark = pytest.mark.interop

VERSION = "5.3.3"


def secret_in(folder: Path) -> dict[str, str]:
    """Write a secret; return the setting."""
    path = folder / "ha-secret"
    path.write_text("secret of the cluster\n")
    path.chmod(0o600)
    return {"haSecretPath": str(path)}


def states(folder: Path, namesrv: str) -> str:
    """Why copies do not follow, in one text."""
    try:
        return str(gantrymq(folder, "cluster", "status", "-n", namesrv))
    except RuntimeError as unhealthy:
        return str(unhealthy)


def closed(folder: Path) -> bool:
    """Whether a Java slave has closed the connection to its master, by its log."""
    logs = [each.read_text() for each in folder.glob("**/store.log")]
    return any("close connection with master" in each.rpartition("HAClient connect to master")[2] for each in logs)


@pytest.mark.long
def test_a_java_slave_gets_nothing_from_a_master_with_a_secret(running: Running, tmp_path: Path, topic: str) -> None:
    namesrv = GantryServer.name_server(tmp_path / "namesrv")
    running(namesrv)
    address = namesrv.namesrv
    master = start(OURS, tmp_path / "master", address, {})
    running(master.process)
    create_topic(address, topic, queues=4)
    asyncio.run(send(address, topic, 50))
    slave = start(VERSION, tmp_path / "slave", address, SLAVE)
    running(slave.process)
    wait_until(lambda: log_files(master.store) == log_files(slave.store), "equal logs", deadline_s=EQUAL_S)
    copied = log_files(slave.store)
    master.process.stop()

    master = start(OURS, tmp_path / "master", address, secret_in(tmp_path))
    running(master.process)
    wait_until(lambda: topic in str(gantrymq(tmp_path, "topic", "list", "-n", address)), "topic", deadline_s=10)
    assert set(asyncio.run(send(address, topic, 50))) == {0}
    empty = start(VERSION, tmp_path / "empty", address, {**SLAVE, "brokerId": "2"})
    running(empty.process)
    sentence = "it did not prove that it knows the secret of this master's haSecretPath"
    wait_until(lambda: sentence in states(tmp_path, address), "a reason", deadline_s=30)
    for each in (tmp_path / "slave", tmp_path / "empty"):
        wait_until(lambda each=each: closed(each), "a closed connection", deadline_s=30)
    assert log_files(slave.store) == copied
    assert [each for each in (empty.store / "commitlog").iterdir() if each.name.startswith("-")] == []


@pytest.mark.long
def test_our_slave_with_a_secret_takes_nothing_from_a_java_master(running: Running, tmp_path: Path, topic: str) -> None:
    namesrv = GantryServer.name_server(tmp_path / "namesrv")
    running(namesrv)
    address = namesrv.namesrv
    master = JavaBroker(VERSION, tmp_path / "master", address)
    running(master)
    create_topic(address, topic, queues=4)
    asyncio.run(send(address, topic, 50))
    slave = start(OURS, tmp_path / "slave", address, {**SLAVE, **secret_in(tmp_path)})
    running(slave.process)
    wait_until(
        lambda: "it did not ask for the secret of haSecretPath" in states(tmp_path, address), "reason", deadline_s=15
    )
    assert log_files(slave.store) == {}


@pytest.mark.long
def test_a_java_slave_with_another_log_is_refused(running: Running, tmp_path: Path, topic: str) -> None:
    namesrv, other = GantryServer.name_server(tmp_path / "namesrv"), GantryServer.name_server(tmp_path / "other")
    running(namesrv)
    running(other)
    address = namesrv.namesrv
    master = start(OURS, tmp_path / "master", address, {})
    running(master.process)
    create_topic(address, topic, queues=4)
    asyncio.run(send(address, topic, 50))
    slave = start(VERSION, tmp_path / "slave", address, SLAVE)
    running(slave.process)
    wait_until(lambda: log_files(master.store) == log_files(slave.store), "equal logs", deadline_s=EQUAL_S)
    slave.process.stop()

    alone = start(VERSION, tmp_path / "slave", other.namesrv, {"brokerName": "broker-b"})
    running(alone.process)
    create_topic(other.namesrv, topic, queues=4)
    assert set(asyncio.run(send(other.namesrv, topic, 3))) == {0}
    alone.process.stop()
    its = log_files(alone.store)
    assert set(asyncio.run(send(address, topic, 50))) == {0}

    slave = start(VERSION, tmp_path / "slave", address, SLAVE)
    running(slave.process)
    wait_until(lambda: "but has another record at" in states(tmp_path, address), "a refusal", deadline_s=EQUAL_S)
    assert set(asyncio.run(send(address, topic, 5))) == {0}
    assert log_files(slave.store) == its
