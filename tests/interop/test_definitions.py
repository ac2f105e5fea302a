"""Definitions exported from our cluster, imported into Java's clusters 4.9.7 and 5.3.3, and exported from there."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from harness import GantryServer

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig

pytestmark = pytest.mark.interop

NOT_IN_4_9 = {
    "topic": "attributes",
    "group": "consume_message_orderly, retry_policy, consume_timeout_minute, subscriptions, sys_flag",
}
JAVA = "broker-a"


def command(namesrv: str, *words: str, code: int = 0) -> Any:
    """The JSON document that one command prints."""
    done = CliRunner().invoke(main, ["cluster", *words, "-n", namesrv, "--output", "json"])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return json.loads(done.stdout if words[0] == "export" else done.stdout.splitlines()[0])


def define(namesrv: str, topic: str, group: str) -> None:
    """Give a topic and a group a value other than the default in every member that brokers do not interpret."""

    async def work() -> None:
        async with Client(namesrv) as client:
            admin = client.admin
            (broker,) = await admin.masters()
            name = (await admin.clusters()).brokers[0].name
            attributes = {"+message.type": "FIFO"}
            await admin.create_topic(broker, TopicConfig(topic, 6, 4, 4, "MULTI_TAG", 1, True, attributes))
            await admin.create_topic(broker, TopicConfig(f"{topic}-plain", 2, 2))
            policy = {"initial": 7, "max": 70, "multiplier": 3}
            config = GroupConfig(
                group,
                consume_enable=False,
                consume_from_min_enable=False,
                consume_broadcast_enable=False,
                consume_message_orderly=True,
                retry_queues=2,
                retry_max_times=5,
                retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": policy},
                broker_id=1,
                which_broker_when_slow=2,
                notify_ids_changed=False,
                sys_flag=1,
                consume_timeout_minute=30,
                subscriptions=[
                    {"topic": each, "expressionType": "TAG", "expression": "*", "version": 1} for each in ("Y", "X")
                ],
            )
            await admin.create_group(broker, config)
            await admin.create_group(broker, GroupConfig(f"{group}-plain"))
            await admin.put_kv_value(ORDER_NAMESPACE, topic, f"{name}:4")

    asyncio.run(work())


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_definitions_move_to_a_java_cluster(
    ours: GantryServer, java_servers: Callable[[str], Any], topic: str, tmp_path: Path, version: str
) -> None:
    java, group, file = java_servers(version).namesrv, f"{topic}-group", tmp_path / "ours.json"
    define(ours.namesrv, topic, group)
    command(ours.namesrv, "export", "-o", str(file))
    exported = json.loads(file.read_text())
    (broker,) = exported["brokers"]
    words = ("import", str(file), "--map", f"{broker}={JAVA}")
    done = command(java, *words, "--yes", code=0 if version == "5.3.3" else 1)
    assert {change["action"] for change in done["changes"]} == {"add"}
    lost = {change["kind"]: change["problems"] for change in done["changes"] if change["result"] != "done"}
    kept = {f"{topic}-plain": exported["topics"][f"{topic}-plain"]}, {f"{group}-plain": {}}
    if version == "5.3.3":
        assert lost == {}
        kept = exported["topics"], exported["groups"]
        assert command(java, *words, "--dry-run")["changes"] == []
    else:
        assert lost == {
            kind: {JAVA: f"accepted, but not kept: {members}; its version may not have this"}
            for kind, members in NOT_IN_4_9.items()
        }
        # Once more: only what this version cannot keep is left.
        changes = command(java, *words, "--dry-run")["changes"]
        assert {each["kind"]: ", ".join(each["at"][0]["fields"]) for each in changes} == NOT_IN_4_9
    there = command(java, "export")
    for section, definitions in zip(("topics", "groups"), kept, strict=True):
        assert {name: there[section][name] for name in definitions} == definitions
    assert there["order_configs"][topic] == f"{JAVA}:4"
    system = command(java, "export", "--system")
    assert {"TBW102", "SELF_TEST_TOPIC", topic} <= set(system["topics"])
    assert {"TOOLS_CONSUMER", group} <= set(system["groups"])
    assert [
        name for name in there["topics"] if name.startswith(("rmq_sys", "RMQ_SYS", "%RETRY%", "DefaultCluster"))
    ] == []
    assert [name for name in there["groups"] if name.startswith(("CID_RMQ", "TOOLS"))] == []
