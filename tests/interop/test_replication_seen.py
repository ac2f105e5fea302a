"""mqadmin shows the replication of our brokers as that of Java's, and our command that of both."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, MqAdmin, create_topic
from harness.ports import free_port
from polling import wait_until

from gantrymq.cli import main

pytestmark = pytest.mark.interop

SIZES = {"mappedFileSizeCommitLog": "1048576", "metricsExporterType": "DISABLE"}
SOON_S = 30.0


def test_mqadmin_shows_our_master_and_our_slave(tmp_path: Path, topic: str) -> None:
    master_settings = {**SIZES, "brokerName": "broker-a", "haListenPort": str(free_port())}
    slave_settings = {**SIZES, "brokerName": "broker-a", "brokerRole": "SLAVE", "brokerId": "1"}
    with GantryServer.both(tmp_path / "master", settings=master_settings) as master:
        namesrv = master.namesrv
        with (
            GantryServer.broker(tmp_path / "slave", namesrv, settings=slave_settings) as slave,
            MqAdmin("5.3.3", tmp_path, namesrv) as tool,
        ):
            create_topic(namesrv, topic, 2)
            Driver("5.3.3", tmp_path, namesrv).produce(topic, 10)

            def shown() -> str:
                return tool.run("haStatus", "-n", namesrv, "-b", master.broker_address)

            wait_until(lambda: re.search(r"\s0\s+[\d.]+\s+OK", shown()) is not None, "slave in sync", SOON_S, shown)
            text = shown()
            (end,) = re.findall(r"#MasterCommitLogMaxOffset\s+(\d+)", text)
            assert int(end) > 1000
            assert re.search(r"#SlaveNum\s+1\n#InSyncSlaveNum\s+1\n", text)
            assert re.search(rf"^127\.0\.0\.1:\d+\s+{end}\s+0\s+[\d.]+\s+OK\s+{end}$", text, re.MULTILINE)

            text = tool.run("haStatus", "-n", namesrv, "-b", slave.broker_address)
            ha_address = f"127.0.0.1:{master_settings['haListenPort']}"
            assert re.search(rf"#MasterAddr\s+{ha_address}\n#CommitLogMaxOffset\s+{end}\n", text)
            assert re.search(r"#LastReadTime\s+20\d\d-.*\n#LastWriteTime\s+20\d\d-.*\n#MasterFlushOffset\s+0", text)

            text = tool.run("getBrokerEpoch", "-n", namesrv, "-b", "broker-a")
            assert "CODE: 1  DESC: this request only for controllerMode" in text
            assert tool.run("resetMasterFlushOffset", "-b", slave.broker_address, "-o", "0").strip() != ""

            of_master, of_slave = copies(namesrv)
            assert (of_master["in_sync_copies"], of_master["wanted_copies"], of_master["end"]) == (2, 1, int(end))
            assert (of_slave["address"], of_slave["lag_bytes"], of_slave["lag_s"]) == (slave.broker_address, 0, 0)
            assert (of_slave["in_sync"], of_slave["following"], of_slave["problem"]) == (True, True, None)


@pytest.mark.parametrize("version", ["5.3.3", pytest.param("4.9.7", marks=pytest.mark.long)])
def test_our_command_shows_what_a_java_master_tells(tmp_path: Path, topic: str, version: str) -> None:
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv") as namesrv,
        JavaBroker(version, tmp_path / "java", namesrv.address, settings={"brokerName": "broker-a"}, keep=False),
    ):
        create_topic(namesrv.address, topic, 2)
        Driver("5.3.3", tmp_path, namesrv.address).produce(topic, 10)
        settings = {**SIZES, "brokerName": "broker-a", "brokerRole": "SLAVE", "brokerId": "1"}
        with GantryServer.broker(tmp_path / "slave", namesrv.address, settings=settings):
            wait_until(
                lambda: [(each["following"], each["problem"]) for each in copies(namesrv.address)][1] == (True, None),
                "copy of log and tables",
                SOON_S,
            )
            of_master, of_slave = copies(namesrv.address)
            assert of_master["end"] == of_slave["end"] > 1000
            assert (of_slave["lag_bytes"], of_slave["lag_s"], of_slave["problem"]) == (0, 0, None)
            known = version != "4.9.7"  # which tells nothing of its slaves
            assert (of_master["in_sync_copies"], of_slave["in_sync"]) == ((2, True) if known else (None, None))


def copies(namesrv: str) -> Any:
    """Master and slave of broker-a as `gantrymq cluster status` shows them."""
    done = CliRunner().invoke(main, ["cluster", "status", "-n", namesrv, "--output", "json"])
    assert done.exit_code in (0, 1), done.output
    (found,) = json.loads(done.stdout)["sets"]
    return found["copies"]
