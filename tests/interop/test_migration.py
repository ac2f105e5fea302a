"""A Java master is replaced by a broker of ours, as the page on migration says: nothing is lost, offsets stay."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import assert_same_messages, leave
from click.testing import CliRunner
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic
from harness.probe import committed
from polling import wait_until

from gantrymq.cli import main
from gantrymq.client import Client, Message
from gantrymq.errors import ClientError

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
VERSION = "5.3.3"
QUEUES = 2
DEADLINE_S = 60.0
BOTH = {"mappedFileSizeCommitLog": "1048576", "brokerName": "broker-a"}
OURS = {**BOTH, "metricsExporterType": "DISABLE"}


def command(namesrv: str, *words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "-n", namesrv, "--output", "json"])
    assert done.exit_code in (0, 1), done.output  # 1: a copy does not follow yet
    return json.loads(done.stdout)


def in_sync(namesrv: str) -> bool:
    (found,) = command(namesrv, "cluster", "status")["sets"]
    return [each["lag_bytes"] for each in found["copies"]] == [None, 0]


async def send(namesrv: str, topic: str) -> None:
    async with Client(namesrv) as client:
        await client.producer("late").send(Message(topic, b"?"))


def test_a_broker_of_ours_takes_over_from_a_java_master(tmp_path: Path, topic: str, running: Running) -> None:
    group, store = f"{topic}-group", str(tmp_path / "store")
    with JavaNameServer(VERSION, tmp_path / "namesrv") as server:
        namesrv = server.address
        master = JavaBroker(VERSION, tmp_path / "master", namesrv, settings=BOTH, keep=False)
        running(master)
        create_topic(namesrv, topic, QUEUES)
        driver = Driver(VERSION, tmp_path, namesrv)
        sent = driver.produce(topic, 200, body_prefix="before")
        assert len(leave(running(driver.push(topic, group)), master.address, group, sent)) == len(sent)

        slave = {**OURS, "storePathRootDir": store, "brokerRole": "SLAVE", "brokerId": "2"}
        copy = GantryServer.broker(tmp_path / "copy", namesrv, settings=slave)
        running(copy)
        wait_until(lambda: in_sync(namesrv), "a slave in sync", DEADLINE_S)
        command(namesrv, "broker", "write-perm", "wipe", "broker-a")
        with pytest.raises(ClientError):
            asyncio.run(send(namesrv, topic))

        def offsets(broker: str) -> list[int | None]:
            return [committed(broker, group, topic, queue) for queue in range(QUEUES)]

        expected = offsets(master.address)
        wait_until(lambda: in_sync(namesrv) and offsets(copy.broker_address) == expected, "all copied", DEADLINE_S)
        master.stop()
        copy.stop()

        ours = GantryServer.broker(tmp_path / "ours", namesrv, settings={**OURS, "storePathRootDir": store})
        running(ours)
        later = driver.produce(topic, 50, body_prefix="after")
        received = leave(running(driver.push(topic, group)), ours.broker_address, group, later)
        assert_same_messages(later, received)
