"""`group`, `broker config` and `cluster` against a name server and a broker of this process."""

import json
from importlib.util import find_spec

import attrs
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Admin, Client
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest
from gantrymq_admin.commands import group as group_commands
from gantrymq_admin.commands.status import _show
from gantrymq_admin.progress import queues_of_group

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


@pytest.fixture
def server(gantrymq_broker_factory):
    return gantrymq_broker_factory({"store": "memory"})


@pytest.fixture
def command(server):
    """Run a command with ``--output json``; returns its document."""

    def run(*words, code=0):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv, "--output", "json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if code == 0 else done.stderr

    return run


@pytest.fixture
def online(server):
    """A consumer of group CG that reads topic T, as long as the test runs."""
    client = Client(server.namesrv)
    subscription = {"topic": "T", "subString": "a || b", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": "CG",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    body = dumps({"clientID": "c1", "consumerDataSet": [consumer]})

    async def join():
        await client.start()
        await client.admin.request(server.broker_address, RequestCode.HEART_BEAT, body=body)

    server.create_topic("T", 2)
    server.run(join())
    yield
    server.run(client.close())


def names(document):
    return [each["group"] for each in document["groups"]]


def test_groups_are_made_listed_changed_and_deleted(server, command):
    assert names(command("group", "list")) == []
    made = command("group", "create", "-g", "CG", "-r", "3", "-q", "2", "--no-broadcast")
    assert made["brokers"] == [server.broker_address]
    assert (made["retry_max_times"], made["consume_broadcast_enable"]) == (3, False)
    (listed,) = command("group", "list")["groups"]
    assert (listed["group"], listed["retry_max_times"], listed["retry_queues"], listed["clients"]) == ("CG", 3, 2, 0)
    assert "TOOLS_CONSUMER" in names(command("group", "list", "--all"))
    command("group", "create", "-g", "CG", "--no-consume", "-b", server.broker_address)
    assert command("group", "list")["groups"][0]["consume_enable"] is False
    assert command("group", "delete", "-g", "CG", "--clean-offsets")["brokers"] == [server.broker_address]
    assert names(command("group", "list")) == []
    assert "there is no group CG" in command("group", "delete", "-g", "CG", code=1)


def test_online_members_and_their_subscriptions(online, command):
    found = command("group", "clients", "-g", "CG")
    assert [each["client_id"] for each in found["clients"]] == ["c1"]
    assert found["subscriptions"] == [{"topic": "T", "expression": "a || b", "type": "TAG"}]
    assert (found["consume_type"], found["consume_from_where"]) == ("CONSUME_PASSIVELY", "CONSUME_FROM_FIRST_OFFSET")
    assert command("group", "list")["groups"][0]["clients"] == 1
    assert "no member of group Nobody is online" in command("group", "clients", "-g", "Nobody", code=1)


def test_progress_adds_up_what_is_behind(server, online, command):
    found = command("group", "progress", "-g", "CG")
    assert (found["behind"], found["deleted"], found["without_master"]) == (0, 0, [])
    assert [(each["topic"], each["committed"]) for each in found["queues"]] == [("T", 0)] * 2
    for _ in range(4):
        server.send("T", b"body")
    server.call(server.broker.offsets.commit, "CG", Queue("T", 0), 1)
    found = command("group", "progress", "-g", "CG")
    assert found["behind"] == 3
    assert [(each["queue"], each["committed"]) for each in found["queues"]] == [(0, 1), (1, 0)]
    assert found["queues"][0]["last_stored_ms"] > 0
    assert command("group", "progress", "-g", "CG", "-t", "Other")["queues"] == []


def test_deleted_messages_that_a_broker_does_not_report_are_not_counted_as_0(server, online, command, monkeypatch):
    async def of_rocketmq(*asked):
        return [attrs.evolve(each, deleted=None) for each in await queues_of_group(*asked)]

    monkeypatch.setattr(group_commands, "queues_of_group", of_rocketmq)
    for _ in range(2):
        server.send("T", b"body")
    assert command("group", "progress", "-g", "CG")["deleted"] is None


def test_progress_of_an_unknown_group_is_an_error(command):
    assert "there is no group Nobody; 'gantrymq group list'" in command("group", "progress", "-g", "Nobody", code=1)


def test_progress_of_a_deleted_group_shows_the_offsets_that_are_left(server, online, command):
    server.call(server.broker.offsets.commit, "CG", Queue("T", 0), 0)
    command("group", "delete", "-g", "CG")
    assert [each["topic"] for each in command("group", "progress", "-g", "CG")["queues"]] == ["T", "T"]


def test_progress_on_another_topic_says_what_the_group_reads(server, online):
    def said(*words):
        done = CliRunner().invoke(main, ["group", "progress", "-g", "CG", *words, "-n", server.namesrv])
        return done.stderr or done.stdout.splitlines(keepends=True)[-1]

    assert said() == said("-t", "T") == "CG is 0 messages behind\n"
    assert said("-t", "Other") == "CG does not read topic Other; it reads T\n"
    server.call(server.broker.groups.require, "New")
    assert said("-g", "New") == "New has committed nothing yet\n"
    for words in (("-g", "New"), ("-g", "CG", "-t", "Other")):
        found = CliRunner().invoke(main, ["group", "progress", *words, "-n", server.namesrv, "--output", "json"])
        assert json.loads(found.stdout)["behind"] is None


def test_offsets_of_one_topic_are_deleted_when_no_member_reads_it(server, online, command):
    for topic, group in (("T", "CG"), ("Left", "CG"), ("T", "Gone")):
        server.create_topic(topic, 2)
        server.call(server.broker.groups.require, group)
        server.call(server.broker.offsets.commit, group, Queue(topic, 1), 0)
    assert "online members of group CG read topic T" in command(
        "group", "delete-offsets", "-g", "CG", "-t", "T", code=1
    )
    for group, topic in (("CG", "Left"), ("Gone", "T")):
        found = command("group", "delete-offsets", "-g", group, "-t", topic)
        assert found == {"group": group, "topic": topic, "brokers": {server.broker_address: [1]}}
        again = command("group", "delete-offsets", "-g", group, "-t", topic, code=1)
        assert f"group {group} has no offsets on topic {topic}" in again
    assert server.call(server.broker.offsets.topics_of, "CG") == ["T"]
    assert server.call(server.broker.offsets.committed, "CG", Queue("T", 1)) == 0


@pytest.mark.parametrize("name", ["TOOLS_CONSUMER", "CID_RMQ_SYS_anything"])
def test_the_brokers_own_groups_are_not_deleted(command, name):
    assert f"{name} is one of the brokers' own groups" in command("group", "delete", "-g", name, code=1)
    assert "TOOLS_CONSUMER" in names(command("group", "list", "--all"))


def test_settings_are_shown_and_changed(server, command):
    (shown,) = command("broker", "config", "get")["brokers"]
    assert shown["broker"] == server.broker_address
    assert (shown["settings"]["store"], shown["settings"]["traceOn"]) == ("memory", "true")
    changed = command("broker", "config", "set", "traceOn=false", "regionId=west\\1", code=1)
    assert "regionId is read at the start only" in changed
    changed = command("broker", "config", "set", "flushDiskType=WHATEVER", code=1)
    assert "flushDiskType is read at the start only" in changed
    command("broker", "config", "set", "traceOn=false", "brokerPermission=4", "-b", server.broker_address)
    (shown,) = command("broker", "config", "get", "traceOn", "brokerPermission")["brokers"]
    assert shown["settings"] == {"traceOn": "false", "brokerPermission": "4"}
    words = ["broker", "config", "set", "traceOn=false", "-n", server.namesrv]
    told = CliRunner().invoke(main, words).output
    assert told == f"set traceOn at {server.broker_address} until it stops\n"
    assert "has no setting noSuchKey" in command("broker", "config", "get", "noSuchKey", code=1)
    command("broker", "config", "set", "traceOn", code=2)


def test_a_broker_cleans_up_and_says_what_it_did(server, command):
    found = command("broker", "clean", "log", "queues", "topics")["cleaned"]
    assert [(each["broker"], each["what"]) for each in found] == [
        (server.broker_address, "log"),
        (server.broker_address, "queues"),
        (server.broker_address, "topics"),
    ]
    assert [each["said"] for each in found] == [
        "deleting 0 log files, 0 bytes",
        "removed 0 queues whose messages have left the log",
        "removed the queues of 0 topics that do not exist",
    ]
    assert "'everything' is not one of 'log', 'queues', 'topics'" in command("broker", "clean", "everything", code=2)


def test_a_cluster_shows_its_brokers(server, command):
    server.create_topic("T", 1)
    server.send("T", b"body")
    (cluster,) = command("cluster")["clusters"]
    (broker,) = cluster["brokers"]
    assert (cluster["cluster"], broker["role"], broker["address"]) == (
        "DefaultCluster",
        "master",
        server.broker_address,
    )
    assert broker["problem"] is None
    assert broker["put_total"] == 1
    assert broker["log_max_offset"] > broker["log_min_offset"] == 0
    assert "no cluster is named Other" in command("cluster", "-c", "Other", code=1)


def test_a_master_without_slaves_has_a_status(server, command):
    server.create_topic("T", 1)
    server.send("T", b"body")
    (found,) = command("cluster", "status")["sets"]
    (master,) = found["copies"]
    assert (found["cluster"], master["role"], master["id"]) == ("DefaultCluster", "master", 0)
    assert (master["address"], master["in_sync_copies"], master["problem"]) == (server.broker_address, 1, None)
    assert master["end"] > 0
    assert command("cluster", "status", "-c", "DefaultCluster")["sets"]
    assert "no cluster is named Other" in command("cluster", "status", "-c", "Other", code=1)


def test_the_status_of_no_broker_is_no_success(server, command, monkeypatch):
    real = Admin.clusters

    async def without_brokers(*words, **named):
        return attrs.evolve(await real(*words, **named), clusters={}, brokers=())

    monkeypatch.setattr(Admin, "clusters", without_brokers)
    assert "no broker is registered with the name servers" in command("cluster", "status", code=1)


def test_a_broker_that_is_not_known_cannot_be_closed(server, command):
    for change in ("wipe", "add"):
        said = command("broker", "write-perm", change, "nosuch", code=1)
        assert "no name server knows a broker nosuch; brokers known: " in said


def test_a_broker_name_without_a_master_is_told(server, command, monkeypatch):
    server.create_topic("T", 1)

    def as_slaves(brokers):
        return tuple(attrs.evolve(each, addresses={1: each.master}) for each in brokers)

    for name in ("clusters", "route"):
        real = getattr(Admin, name)

        async def without_master(*words, real=real, **named):
            found = await real(*words, **named)
            return attrs.evolve(found, brokers=as_slaves(found.brokers))

        monkeypatch.setattr(Admin, name, without_master)
    done = CliRunner().invoke(main, ["cluster", "status", "-n", server.namesrv])
    assert done.exit_code == 1 and "no master is registered" in " ".join(done.output.split())
    (name,) = command("status")["without_master"]
    for words in (["status"], ["topic", "route", "T"]):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
        assert f"{name}: no master is registered with the name servers" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [
        ("group", "progress", "CG"),
        ("group", "list"),
        ("group", "explain", "CG"),
        ("group", "clone", "CG", "Other", "--dry-run"),
        ("group", "reset", "CG", "-t", "T", "--to", "earliest", "--dry-run"),
        ("topic", "create", "T"),
        ("topic", "list", "--by", "put"),
        ("topic", "delete", "T"),
    ],
)
def test_commands_for_all_masters_name_what_has_none(server, online, monkeypatch, words):
    server.send("T", b"1")
    server.call(server.broker.offsets.commit, "CG", Queue("T", 0), 0)
    real = Admin.clusters

    async def with_a_slave(self, *of):
        info = await real(self, *of)
        slave = attrs.evolve(info.brokers[0], name="lost", addresses={1: "127.0.0.1:1"})
        names = {cluster: (*every, "lost") for cluster, every in info.clusters.items()}
        return attrs.evolve(info, brokers=(*info.brokers, slave), clusters=names)

    monkeypatch.setattr(Admin, "clusters", with_a_slave)
    done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
    assert done.exit_code == 0, done.output
    assert "lost is left out: no master of it is registered" in done.stderr
    if words[1] == "progress":
        assert "CG is at least 1 messages behind" in done.stdout
    if words[1] in ("progress", "explain"):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv, "--output", "json"])
        assert json.loads(done.stdout)["without_master"] == ["lost"]
        named = CliRunner().invoke(main, [*words, "-n", server.namesrv, "-b", server.broker_address])
        assert "left out" not in named.stderr and "at least" not in named.stdout


def test_two_masters_of_one_name_are_told(server, command):
    """A second broker registers with id 0, as after the old master's machine started again."""
    server.create_topic("T", 1)
    (name,) = (each["broker"] for each in command("status")["brokers"])
    assert command("status")["rivals"] == []
    header = RegisterBrokerRequest(
        broker_name=name, broker_addr="127.0.0.1:1", cluster_name="DefaultCluster", ha_server_addr="", broker_id=0
    )
    body = dumps(
        {
            "topicConfigSerializeWrapper": {
                "topicConfigTable": {each: {"topicName": each} for each in ("T", "U")},
                "dataVersion": {"timestamp": 1, "counter": 1, "stateVersion": 0},
            }
        }
    )

    client = Client(server.namesrv)

    async def registers():
        await client.start()
        await client.admin.request(server.namesrv, RequestCode.REGISTER_BROKER, header, body)

    server.run(registers())
    done = CliRunner().invoke(main, ["status", "-n", server.namesrv, "--output", "json"])
    (pair,) = json.loads(done.stdout)["rivals"]  # the exit code is 1 if the route has the one that does not answer
    assert {pair["master"], pair["rival"]} == {server.broker_address, "127.0.0.1:1"} and pair["broker"] == name
    done = CliRunner().invoke(main, ["cluster", "status", "-n", server.namesrv, "--output", "json"])
    (found,) = json.loads(done.stdout)["sets"]
    assert done.exit_code == 1 and not found["healthy"]
    rows = {each["address"]: each for each in found["copies"] if each["role"] == "master"}
    assert rows.keys() == {server.broker_address, "127.0.0.1:1"}
    assert any("two brokers are registered with id 0" in (each["problem"] or "") for each in rows.values())
    for words in (["status"], ["topic", "route", "T"]):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
        assert "two brokers are registered with id 0" in " ".join(done.output.split())
    server.run(client.close())


def test_figures_of_master_and_slave_are_told_apart_and_explained_once(capsys):
    def broker(broker_id, **figures):
        shown = {
            name: {"value": value, "help": f"All of {name}.", "counts": False, "sentences": [f"why {name}"]}
            for name, value in figures.items()
        }
        place = {"cluster": "C", "broker": "b", "id": broker_id, "address": f"a:{broker_id}"}
        rates = dict.fromkeys(("version", "in_per_s", "out_per_s", "in_today", "out_today"))
        return {**place, **rates, "reachable": True, "problem": None, "figures": shown, "problems": ["full"]}

    brokers = [broker(0, waiting=5), broker(1, waiting=4, late=1)]
    _show({"name_servers": [], "brokers": brokers, "without_master": [], "rivals": []})
    told = capsys.readouterr()
    lines = [" ".join(line.split()) for line in told.out.splitlines() if line.strip()]
    assert lines[-3:] == ["late b:1 1 All of late.", "waiting b 5 All of waiting.", "b:1 4"]
    assert "b:1: why late" in told.err and "b: why waiting" in told.err and "b:1 at a:1: full" in told.err


def test_every_name_has_a_master(command):
    assert command("status")["without_master"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("group", "create", "-g", "CG"),
        ("group", "list"),
        ("group", "clients", "-g", "CG"),
        ("group", "progress", "-g", "CG"),
        ("group", "delete", "-g", "CG"),
        ("broker", "config", "get", "traceOn"),
        ("broker", "config", "set", "traceOn=false"),
        ("broker", "clean", "log"),
        ("cluster",),
        ("cluster", "status"),
    ],
)
def test_text_for_people(server, online, words):
    done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
    assert done.exit_code == 0, done.output
    assert done.output


@pytest.mark.parametrize(
    "words",
    [
        ("group", "list", "-b", "nowhere"),
        ("group", "create", "-g", "no good name"),
        ("group", "create", "-g", "CG", "-r", "-1"),
        ("group", "list", "-b", "127.0.0.1:1", "-c", "C"),
        ("broker", "config", "set"),
        ("broker", "clean"),
        ("broker", "nothing"),
    ],
)
def test_wrong_usage_exits_with_2(words):
    assert CliRunner().invoke(main, words).exit_code == 2


def test_broker_without_a_subcommand_runs_one():
    done = CliRunner().invoke(main, ["broker", "--set", "noPair"])
    assert done.exit_code == 2
    assert "is not KEY=VALUE" in done.output


def test_a_fixed_master_is_not_changed(command):
    for words in (("handover",), ("demote",), ("promote", "1"), ("promote", "1", "--unclean")):
        said = command("cluster", words[0], "broker-a", *words[1:], code=1)
        assert "the master of broker-a is fixed by settings, not elected (enableControllerMode)" in said
    assert "no name server knows a broker broker-z; brokers known: broker-a" in command(
        "cluster", "handover", "broker-z", code=1
    )
    assert command("cluster", "explain") == {"sets": [], "fixed": ["broker-a"]}
    done = CliRunner().invoke(main, ["cluster", "handover"])
    assert (done.exit_code, "Give it as an argument or with -b or --broker-name" in done.stderr) == (2, True)


@pytest.mark.skipif(find_spec("gantrymq_replication") is None, reason="needs gantrymq-replication")
def test_a_broker_that_is_not_missed_is_not_forgotten(server, command):
    name = command("cluster")["clusters"][0]["brokers"][0]["broker"]
    said = command("cluster", "forget", name, "10.0.0.9", code=1)
    assert "this broker has lost no slave at 10.0.0.9, or it is not the master" in said
    assert "no name server knows a broker other" in command("cluster", "forget", "other", "3", code=1)
