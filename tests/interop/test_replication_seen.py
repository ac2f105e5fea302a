"""mqadmin shows the replication of our brokers as that of Java's."""

import re
from pathlib import Path

import pytest
from harness import Driver, GantryServer, MqAdmin, create_topic
from harness.ports import free_port
from polling import wait_until

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
