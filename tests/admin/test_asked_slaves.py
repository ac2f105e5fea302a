"""Commands that read while no master is registered: a slave is asked, and its age is told."""

import asyncio
import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client.admin import HaStatus, MasterConnection, RequestNotServed
from gantrymq.commands.times import local_time
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq_admin.brokers import asked_slave

PARTS = ("storage_mmap", "replication", "nameserver", "diagnosis", "schedule", "transaction")
needs_parts = pytest.mark.skipif(
    not all(find_spec(f"gantrymq_{each}") for each in PARTS), reason=f"needs {', '.join(PARTS)}"
)


@pytest.fixture
def slave(gantrymq_broker_factory, tmp_path):
    """The only broker that is left: a slave that has all of its master."""
    from slave_without_master import slave_without_master

    running = gantrymq_broker_factory({"store": "mmap"})
    running.create_topic("Orders", 1)
    for _ in range(3):
        running.send("Orders", b"one")
    running.call(running.broker.groups.put, GroupConfig("CG"))
    running.call(running.broker.offsets.commit, "CG", Queue("Orders", 0), 1)
    running.create_topic("%DLQ%CG", 1)
    running.put("%DLQ%CG", b"dead")
    running.send("Orders", b"later", delay_level=18)

    def copied(broker):
        return broker.offsets.committed("CG", Queue("Orders", 0)) == 1 and broker.groups.get("CG") is not None

    with slave_without_master(running, tmp_path / "slave", copied=copied) as found:
        yield found


@needs_parts
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("group", "progress", "CG"), "CG is 2 messages behind"),
        (("group", "list"), "CG"),
        (("group", "list", "--by", "name"), "CG"),
        (("group", "explain", "CG"), "2 behind"),
        (("topic", "list", "--by", "name"), "Orders"),
        (("group", "dlq", "list", "CG"), "1 dead letters"),
        (("group", "dlq", "show", "CG", "0"), "dead"),
    ],
)
def test_commands_ask_the_slave(slave, words, shown):
    done = CliRunner().invoke(main, [*words, "-n", slave.namesrv])
    assert done.exit_code == 0, done.output
    assert shown in done.stdout and "at least" not in done.stdout
    if words[1] != "dlq":
        said = " ".join(done.stderr.split())
        assert "no master of it is registered; this is from the slave 127.0.0.1:" in said and ", as of 20" in said


@needs_parts
def test_documents_name_the_slave_and_its_age(slave):
    for words in (("group", "progress", "CG"), ("group", "explain", "CG")):
        done = CliRunner().invoke(main, [*words, "-n", slave.namesrv, "--output", "json"])
        found = json.loads(done.stdout)
        (asked,) = found["from_slaves"]
        assert found["without_master"] == [asked["broker"]] and asked["address"] == slave.broker_address
        age_ms = slave.world.clock.now_ms() - asked["as_of_ms"]
        assert 0 <= age_ms < 60_000
    said = CliRunner().invoke(main, ["group", "clients", "CG", "-n", slave.namesrv])
    assert said.exit_code == 1 and "no member of group CG is online" in said.stderr


@needs_parts
@pytest.mark.parametrize("words", [("message", "pending"), ("transactions", "list"), ("transactions", "show", "ID")])
def test_a_slave_that_does_not_act_is_not_asked_for_what_it_does_not_deliver(slave, words):
    done = CliRunner().invoke(main, [*words, "-n", slave.namesrv])
    assert done.exit_code == 1 and "has no master now, only slaves" in done.stderr


@needs_parts
def test_changes_still_need_a_master(slave):
    for words in (("group", "create", "New"), ("group", "delete", "CG"), ("topic", "create", "New")):
        done = CliRunner().invoke(main, [*words, "-n", slave.namesrv])
        assert done.exit_code == 1 and "has no master now, only slaves" in done.stderr


class Answering:
    """Administration whose brokers have this replication; an error is raised."""

    def __init__(self, connection):
        self.connection = connection

    async def ha_status(self, address):
        if isinstance(self.connection, Exception):
            raise self.connection
        return HaStatus(
            master=False,
            max_offset=0,
            in_sync_slaves=0,
            slaves=(),
            lost_slaves=(),
            wanted_copies=None,
            connection=self.connection,
        )


def connection(read_at_ms, acting=False):
    return MasterConnection(
        master_address="",
        max_offset=0,
        bytes_per_s=0,
        read_at_ms=read_at_ms,
        wrote_at_ms=0,
        local_address=None,
        problem=None,
        acting=acting,
    )


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (connection(1_795_000_000_000), f"this is from the slave a:1, as of {local_time(1_795_000_000_000)}"),
        (connection(1, acting=True), "this is from the slave a:1, which acts for its master"),
        (connection(0), "this is from the slave a:1, which does not say when it last heard its master"),
        (
            RequestNotServed(RequestCode.GET_BROKER_HA_STATUS, "a:1", ""),
            "this is from the slave a:1, which does not say when it last heard its master",
        ),
    ],
)
def test_the_age_of_what_a_slave_answers(told, sentence):
    assert asyncio.run(asked_slave(Answering(told), "b", "a:1")).sentence == sentence
