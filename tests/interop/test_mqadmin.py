"""The official admin tool 5.3.3 on our name server and broker: its output is that for Java's servers.

The commands are those of a golden run, in its order, with the same clients and messages; the known differences are in
the table of mqadmin_differences.py. Commands that need the controller or access control are left out.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import GantryServer, MqAdmin, create_topic
from mqadmin_differences import result_of, unmet, unnamed
from mqadmin_shapes import BROKER, NAMESRV, OFFSET_ID, UNIQUE_KEY, difference, golden
from polling import wait_until

from gantrymq.model.hosts import pack_host, parse_address
from gantrymq.model.ids import offset_id

pytestmark = pytest.mark.interop

TOPIC = "GoldenLive"
GROUPS = ("CG_live", "CG_live_orderly")
GOLDEN = golden()
NAMES = [command["name"] for command in GOLDEN["commands"]]
CONSUMED_S = 60.0
EXPORTED_SETTINGS = {
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
}
EXPORTED_FIGURES = {"diskRatio", "groupSize", "messageAverageSize", "oneDayNum", "topicSize", "tps"}
PINNED = {
    "30-sendMessage": ("-b", "broker-a", "-i", "2")
}  # the tool starts at any queue; in the golden run it was this one


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, str]]]:
    """Command name to Java's output and ours."""
    scratch = tmp_path_factory.mktemp("mqadmin")
    with (
        GantryServer.both(scratch / "server", settings={"brokerName": "broker-a"}) as server,
        MqAdmin("5.3.3", scratch, server.namesrv) as tool,
    ):
        create_topic(server.namesrv, TOPIC, queues=4)
        tool.live(TOPIC)
        for each in GOLDEN["messages"]:
            tool.send(TOPIC, "broker-a", each["queue"], each["tag"], each["key"], each["body"])
        yield {command["name"]: (command["output"], ours(server, tool, command)) for command in GOLDEN["commands"]}


def ours(server: GantryServer, tool: MqAdmin, command: dict[str, Any]) -> str:
    name = command["name"]
    if name == "10-topicStatus":
        wait_for_progress(server, tool, "Consume Diff Total: 0")
    elif name == "13-consumerProgress":
        wait_for_progress(server, tool, "%RETRY%")
    elif name == "35-brokerConsumeStats":
        wait_for_progress(server, tool, "Consume Diff Total: 0")
    words = {NAMESRV: server.namesrv, BROKER: server.broker_address}
    if name.split("-")[1].startswith("queryMsg"):
        words |= ids(server, tool)
    return tool.run(*(words.get(word, word) for word in command["command"]), *PINNED.get(name, ()))


def ids(server: GantryServer, tool: MqAdmin) -> dict[str, str]:
    """Map ids of the golden run's first message to ours, which is the first in the log too."""
    row = tool.run("queryMsgByKey", "-n", server.namesrv, "-t", TOPIC, "-k", "live0").splitlines()[1]
    return {UNIQUE_KEY: row.split()[0], OFFSET_ID: offset_id(pack_host(*parse_address(server.broker_address)), 0)}


def wait_for_progress(server: GantryServer, tool: MqAdmin, *words: str) -> None:
    """Wait until the progress of both groups shows these words and a row for each of the four queues."""
    for group in GROUPS:

        def shown(group: str = group) -> bool:
            text = tool.run("consumerProgress", "-n", server.namesrv, "-g", group)
            rows = [line for line in text.splitlines() if line.startswith(TOPIC) and "N/A" not in line]
            return len(rows) == 4 and all(word in text for word in words)

        wait_until(shown, f"progress of {group}", CONSUMED_S)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_prints_what_it_prints_for_java(
    outputs: dict[str, tuple[str, str]], name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("result", result_of(name))
    lines = difference(*outputs[name])
    assert unnamed(name, lines) == []
    assert unmet(name, lines) == []


def test_settings_that_both_brokers_have_have_the_same_defaults(outputs: dict[str, tuple[str, str]]) -> None:
    """Values are equal except for addresses, folders and sizes of the run, and those in docs/operations/README.md."""
    java, own = (values(text) for text in outputs["38-getBrokerConfig"])
    assert {key for key in java.keys() & own.keys() if java[key] != own[key]} <= {
        "bindAddress",
        "brokerIP1",
        "brokerIP2",
        "diskMaxUsedSpaceRatio",
        "flushDiskType",
        "haListenPort",
        "listenPort",
        "mappedFileSizeTimerLog",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "maxHashSlotNum",
        "maxIndexNum",
        "maxMessageSize",
        "maxTransferCountOnMessageInMemory",
        "metricsExporterType",
        "metricsPromExporterHost",
        "namesrvAddr",
        "storePathCommitLog",
        "storePathRootDir",
    }


def values(text: str) -> dict[str, str]:
    """``key = value`` lines."""
    pairs = (line.split("=", 1) for line in text.splitlines() if " = " in line)
    return {key.strip(): value.strip() for key, value in pairs}


def test_exported_files_hold_what_they_hold_for_java(
    outputs: dict[str, tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The keys are those of a broker 5.3.3, and each has a value."""
    folders = list(Path(tmp_path_factory.getbasetemp()).glob("mqadmin*/mqadmin/export"))
    files = {file.name: json.loads(file.read_text()) for folder in folders for file in folder.iterdir()}
    assert files.keys() == {"configs.json", "metadata.json", "metrics.json"}
    assert files["configs.json"]["clusterScale"] == {"namesrvSize": 1, "slaveBrokerSize": 0, "masterBrokerSize": 1}
    config = files["configs.json"]["brokerConfigs"]["broker-a"]
    assert config.keys() == EXPORTED_SETTINGS
    assert all(config.values())
    assert files["metadata.json"].keys() == {"exportTime", "topicConfigTable", "subscriptionGroupTable"}
    assert TOPIC in files["metadata.json"]["topicConfigTable"]
    assert set(GROUPS) <= files["metadata.json"]["subscriptionGroupTable"].keys()
    report = files["metrics.json"]["evaluateReport"]["broker-a"]
    assert report["runtimeEnv"].keys() == {"cpuNum"}
    assert int(report["runtimeEnv"]["cpuNum"]) > 0
    quota = report["runtimeQuota"]
    assert quota.keys() == EXPORTED_FIGURES
    assert all(0 < float(ratio) < 1 for ratio in quota["diskRatio"].values())
    assert quota["diskRatio"].keys() == {"commitLogDiskRatio", "consumeQueueDiskRatio"}
    assert report["runtimeVersion"]["rocketmqVersion"] == "V5_3_3"
    assert files["metrics.json"]["totalData"].keys() == {"totalOneDayNum", "totalTps"}
