"""``cluster export`` and ``cluster import`` on two brokers of this process."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq.errors import BrokerRefused, ConnectFailed
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest
from gantrymq_admin.definitions import importing

pytest.importorskip("gantrymq_storage_memory")


class TwoBrokers:
    """The brokers a and b; ``run`` runs a command at the name server of a, at which `start` registers b too."""

    def __init__(self, factory, cluster):
        self.cluster = cluster
        self.a, self.b = (
            factory({"store": "memory", "brokerName": name, "brokerClusterName": cluster}) for name in "ab"
        )
        self.client = Client(self.a.namesrv)  # a name server forgets a broker when the connection ends

    def start(self):
        self.a.run(self.client.start())
        self.register("b", self.b.broker_address, 0)

    def register(self, name, address, broker_id):
        header = RegisterBrokerRequest(
            broker_name=name,
            broker_addr=address,
            cluster_name=self.cluster,
            ha_server_addr="",
            broker_id=broker_id,
        )
        self.admin(lambda admin: admin.request(self.a.namesrv, RequestCode.REGISTER_BROKER, header))

    def admin(self, work):
        async def ask():
            return await work(self.client.admin)

        return self.a.run(ask())

    def close(self):
        self.a.run(self.client.close())

    def make(self, running, config):
        create = "create_topic" if isinstance(config, TopicConfig) else "create_group"
        self.admin(lambda admin: getattr(admin, create)(running.broker_address, config))

    def order(self, topic, text):
        self.admin(lambda admin: admin.put_kv_value(ORDER_NAMESPACE, topic, text))

    def topic(self, running, name):
        return running.call(running.broker.topics.get, name)

    def group(self, running, name):
        return running.call(running.broker.groups.get, name)

    def run(self, *words, code=0, **more):
        done = CliRunner().invoke(main, ["cluster", *map(str, words), "-n", self.a.namesrv], **more)
        assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
        return done

    def json(self, *words, code=0):
        return json.loads(self.run(*words, "--output", "json", code=code).stdout.splitlines()[0])


@pytest.fixture
def pairs(gantrymq_broker_factory):
    made = []

    def make(cluster):
        made.append(TwoBrokers(gantrymq_broker_factory, cluster))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def two(pairs):
    return pairs("C")


@pytest.fixture
def file(tmp_path):
    """Writes a document for both brokers, and returns its path."""

    def write(topics=None, groups=None, order=None, **top):
        path = tmp_path / "given.json"
        members = {"definitions_version": 1, "brokers": ["a", "b"], **top}
        path.write_text(
            json.dumps({**members, "topics": topics or {}, "groups": groups or {}, "order_configs": order or {}})
        )
        return path

    return write


FOUR = {"read_queues": 4, "write_queues": 4}


def test_a_cluster_moves_to_another_one(two, pairs, tmp_path):
    two.make(two.a, TopicConfig("Orders", 8, 8, attributes={"+message.type": "FIFO"}))
    two.make(two.b, TopicConfig("Orders", 4, 4, perm=4, attributes={"+message.type": "FIFO"}))
    two.make(two.b, TopicConfig("Here", 2, 2, order=True))
    for broker in (two.a, two.b):
        two.make(broker, GroupConfig("billing", retry_max_times=3, consume_message_orderly=True))
    two.order("Orders", "a:8;b:4")
    target = tmp_path / "old.json"
    said = two.run("export", "-o", target).stdout
    assert said == f"exported 2 topics, 1 groups and 1 order configurations of cluster C to {target}\n"
    assert json.loads(target.read_text())["topics"]["Orders"] == {
        "read_queues": 8,
        "write_queues": 8,
        "order": True,
        "attributes": {"message.type": "FIFO"},
        "brokers": {"b": {"read_queues": 4, "write_queues": 4, "perm": 4}},
    }
    assert two.run("export").stdout == target.read_text()
    assert two.json("import", target, "--dry-run")["changes"] == []

    new = pairs("New")
    done = new.json("import", target, "--yes")
    assert [(each["kind"], each["name"], each["action"], each["result"]) for each in done["changes"]] == [
        ("topic", "Here", "add", "done"),
        ("topic", "Orders", "add", "done"),
        ("group", "billing", "add", "done"),
        ("order_config", "Orders", "add", "done"),
    ]
    again = json.loads(new.run("export").stdout)
    assert again == {**json.loads(target.read_text()), "cluster": "New"}
    assert new.topic(new.b, "Orders").perm == 4
    assert new.group(new.a, "billing").consume_message_orderly is True


def test_topics_that_a_group_must_not_read_move_too(two, pairs, tmp_path):
    for broker in (two.a, two.b):
        two.make(broker, GroupConfig("billing"))
        for topic in ("Orders", "Refunds"):
            at = broker.broker_address
            two.admin(lambda admin, at=at, topic=topic: admin.set_topic_readable(at, "billing", topic, readable=False))
    two.admin(lambda admin: admin.set_topic_readable(two.b.broker_address, "billing", "Refunds", readable=True))
    target = tmp_path / "old.json"
    two.run("export", "-o", target)
    assert json.loads(target.read_text())["groups"]["billing"] == {
        "unreadable_topics": ["Orders", "Refunds"],
        "brokers": {"b": {"unreadable_topics": ["Orders"]}},
    }
    new = pairs("New")
    new.json("import", target, "--yes")
    may = (
        new.b.call(new.b.broker.groups.may_read, "billing", "Refunds"),
        new.a.call(new.a.broker.groups.may_read, "billing", "Refunds"),
    )
    assert may == (True, False)
    changed = json.loads(target.read_text())
    changed["groups"]["billing"] = {"unreadable_topics": ["Other"]}
    target.write_text(json.dumps(changed))
    done = new.json("import", target, "--yes")
    assert [(each["name"], each["action"], each["result"]) for each in done["changes"]] == [
        ("billing", "change", "done")
    ]
    found = new.admin(lambda admin: admin.unreadable_topics(new.a.broker_address))
    assert found == {"billing": ("Other",)}
    assert new.json("import", target, "--dry-run")["changes"] == []


def test_an_existing_file_is_kept_unless_it_is_forced(two, tmp_path):
    target = tmp_path / "d.json"
    target.write_text("mine")
    assert "d.json already exists; --force replaces it" in two.run("export", "-o", target, code=1).stderr
    assert target.read_text() == "mine"
    done = two.json("export", "-o", target, "--force")
    assert (done["cluster"], done["brokers"], done["topics"]) == ("C", ["a", "b"], 0)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["d.json"]
    said = two.run("export", "-o", tmp_path / "no" / "d.json", code=1).stderr
    assert "cannot be written: No such file or directory" in said


def test_a_dry_run_shows_the_difference_and_changes_nothing(two, file):
    two.make(two.a, TopicConfig("T", 4, 4))
    two.make(two.b, TopicConfig("T", 4, 4, perm=4))
    two.make(two.a, TopicConfig("Extra", 1, 1))
    wanted = file(
        {"T": {**FOUR, "order": True}, "New": FOUR}, {"G": {"retry_queues": 2, "brokers": {"b": {"retry_queues": 3}}}}
    )
    done = two.run("import", wanted, "--dry-run")
    assert done.stdout.splitlines() == [
        "+ topic New at a, b: read_queues 4, write_queues 4",
        "~ topic T",
        "    order: false -> true at a, b",
        "    perm: 4 -> 6 at b",
        "+ group G at a: retry_queues 2",
        "+ group G at b: retry_queues 3",
        "cluster C: 2 to add, 1 to change, 0 unchanged",
        "only in the cluster, and not deleted: 1 (topic Extra)",
    ]
    (change,) = [each for each in two.json("import", wanted, "--dry-run")["changes"] if each["name"] == "T"]
    assert change["at"][1] == {
        "broker": "b",
        "action": "change",
        "fields": {"perm": {"before": 4, "after": 6}, "order": {"before": False, "after": True}},
        "hidden_messages": None,
    }
    assert (change["result"], two.topic(two.a, "New"), two.topic(two.a, "T").order) == (None, None, False)


def test_nothing_is_changed_without_a_yes(two, file):
    wanted = file({"T": FOUR})
    for answer in ("n\n", ""):
        done = two.run("import", wanted, code=1, input=answer)
        assert "Change cluster C? [y/N]" in done.stderr
        assert "nothing was changed; --yes applies the changes without asking" in done.stderr
        assert two.topic(two.a, "T") is None
    assert "applied 1 changes to cluster C" in two.run("import", wanted, input="y\n").stdout
    assert two.topic(two.b, "T").read_queues == 4
    assert "0 to add, 0 to change, 1 unchanged" in two.run("import", wanted).stdout  # without a question


def test_attributes_are_set_changed_and_deleted(two, file):
    first = {"message.type": "FIFO", "reserve.time": "1000"}
    two.run("import", file({"T": {**FOUR, "attributes": first}}, {"G": {"attributes": {"filter": "a,b"}}}), "--yes")
    assert (two.topic(two.a, "T").attributes, two.group(two.b, "G").attributes) == (first, {"filter": "a,b"})
    second = {"message.type": "FIFO", "reserve.time": "9"}
    two.run("import", file({"T": {**FOUR, "attributes": second}}, {"G": {}}), "--yes")
    assert (two.topic(two.a, "T").attributes, two.group(two.b, "G").attributes) == (second, {})
    two.run("import", file({"T": FOUR}), "--yes")
    assert two.topic(two.a, "T").attributes == {}


def test_a_failed_change_does_not_keep_back_the_others(two, file):
    wanted = file({"Bad": {**FOUR, "attributes": {"no.such": "1"}}, "Good": FOUR}, {"G": {"retry_max_times": 10**8}})
    done = two.run("import", wanted, "--yes", code=1)
    assert "warning: topic Bad at a: " in done.stderr
    assert "warning: group G at b: " in done.stderr
    assert "2 of 3 changes failed: topic Bad, group G; see above" in done.stderr
    assert two.topic(two.b, "Good").read_queues == 4
    changes = two.json("import", wanted, "--yes", code=1)["changes"]
    assert [(each["name"], each["result"], sorted(each["problems"])) for each in changes] == [
        ("Bad", "failed", ["a", "b"]),
        ("G", "failed", ["a", "b"]),
    ]


def test_one_broker_that_refuses_is_named(two, file, monkeypatch):
    answered = importing.Admin.create_group

    async def refuse(admin, address, config):
        if address == two.b.broker_address:
            raise BrokerRefused(1, "out of breath", address)
        await answered(admin, address, config)

    monkeypatch.setattr(importing.Admin, "create_group", refuse)
    wanted = file(groups={"G": {"retry_queues": 2}})
    (change,) = two.json("import", wanted, "--yes", code=1)["changes"]
    assert "out of breath" in change["problems"].pop("b")
    assert change["problems"] == {}
    monkeypatch.undo()
    (change,) = two.json("import", wanted, "--yes")["changes"]
    assert [each["broker"] for each in change["at"]] == ["b"]


def test_requests_at_once_are_bounded(two, file, monkeypatch):
    answered, under_way, most = importing.Admin.create_group, 0, 0

    async def watch(admin, address, config):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await answered(admin, address, config)
        under_way -= 1

    monkeypatch.setattr(importing.Admin, "create_group", watch)
    two.run("import", file(groups={f"G{number}": {} for number in range(40)}), "--yes")
    assert most == importing.AT_ONCE


def test_thousands_of_changes_are_no_long_step_and_one_that_fails_ends_the_rest():
    """The console imports in the process of a broker."""

    async def at_once(number):
        if number == 4200:
            raise ConnectFailed("refused")
        if number > 4000:
            await asyncio.Event().wait()
        return number

    async def work():
        steps, running = 0, asyncio.current_task()

        async def count():
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        assert await importing._bounded(range(4000), at_once) == list(range(4000))
        assert steps >= 4000 // importing._STEP / importing.AT_ONCE
        with pytest.raises(ConnectFailed):
            await importing._bounded(range(4200, 5000), at_once)
        await asyncio.sleep(0)
        counting.cancel()
        assert asyncio.all_tasks() <= {counting, running}

    asyncio.run(work())


def test_what_a_broker_accepts_without_keeping_is_a_failure(two, file, monkeypatch):
    answered = importing.Admin.create_topic

    async def old(admin, address, config):
        config.attributes = {}
        await answered(admin, address, config)

    monkeypatch.setattr(importing.Admin, "create_topic", old)
    (change,) = two.json(
        "import", file({"T": {**FOUR, "only_at": ["a"], "attributes": {"message.type": "FIFO"}}}), "--yes", code=1
    )["changes"]
    assert change["problems"] == {"a": "accepted, but not kept: attributes; its version may not have this"}


def test_fewer_queues_are_refused_unless_they_are_asked_for(two, file):
    for broker in (two.a, two.b):
        two.make(broker, TopicConfig("T", 8, 8))
    two.a.put("T", b"1", queue_id=5)
    wanted = file({"T": FOUR, "New": FOUR})
    assert (
        "    at a no consumer would receive what is in queues 4 to 7, 1 messages now"
        in two.run("import", wanted, "--dry-run").stdout.splitlines()
    )
    changes = two.json("import", wanted, "--yes", code=1)["changes"]
    assert [(each["name"], each["result"], list(each["problems"])) for each in changes] == [
        ("New", "done", []),
        ("T", "failed", ["a"]),
    ]
    assert [two.topic(each, "T").read_queues for each in (two.a, two.b)] == [8, 4]
    two.run("import", wanted, "--yes", "--fewer-queues")
    assert two.topic(two.a, "T").read_queues == 4


def test_brokers_of_the_file_are_mapped(two, file):
    wanted = file({"T": {**FOUR, "brokers": {"x": {"perm": 4}}}}, brokers=["a", "x"], order={"T": "a:4;x:4"})
    assert "the cluster has no broker x, only a, b; --map x=NAME" in two.run("import", wanted, "--yes", code=1).stderr
    two.run("import", wanted, "--map", "x=b", "--yes")
    assert [two.topic(each, "T").perm for each in (two.a, two.b)] == [6, 4]
    assert json.loads(two.run("export").stdout)["order_configs"] == {"T": "a:4;b:4"}
    done = two.run("import", wanted, "--map", "x=", "--dry-run")
    assert "not in the file, and not changed: b" in done.stderr
    assert "--map" in two.run("import", wanted, "--map", "x", "--yes", code=2).stderr


def test_progress_is_on_stderr(two, file, monkeypatch):
    monkeypatch.setattr("gantrymq_admin.commands.cluster_definitions.PROGRESS_EVERY", 2)
    done = two.run("import", file(groups={f"G{number}": {} for number in range(5)}), "--yes")
    assert done.stderr.splitlines() == ["2 of 5 changes", "4 of 5 changes"]


@pytest.mark.parametrize("words", [(), ("--output", "json")])
def test_a_wrong_file_is_one_sentence(two, tmp_path, words):
    path = tmp_path / "d.json"
    assert "d.json cannot be read: No such file or directory" in two.run("import", path, "--yes", *words, code=1).stderr
    path.write_text('{"definitions_version": 1, "groups": {"G": {"retries": 3}}}')
    said = two.run("import", path, "--yes", *words, code=1).stderr
    assert said.startswith(f"gantrymq: {path}: groups, G: unknown member retries; ")
    assert said.endswith("; nothing was changed\n")


def test_standard_input(two):
    text = json.dumps({"definitions_version": 1, "groups": {"G": {}}})
    assert "needs --yes or --dry-run" in two.run("import", "-", code=2, input=text).stderr
    two.run("import", "-", "--yes", input=text)
    assert two.group(two.b, "G") == GroupConfig("G")


def test_json_needs_an_answer_beforehand(two, file):
    assert "--output json needs --yes or --dry-run" in two.run("import", file(), "--output", "json", code=2).stderr


def test_options_of_the_view_do_not_get_lost(two):
    done = CliRunner().invoke(main, ["cluster", "-c", "C", "export", "-n", two.a.namesrv])
    assert (done.exit_code, "write -c after export" in done.stderr) == (2, True)


def test_a_broker_without_a_master_is_an_error(two):
    two.register("c", "127.0.0.1:1", 1)
    assert "broker c of cluster C has no master now; start it first" in two.run("export", code=1).stderr


def test_a_silent_broker_is_an_error(two, tmp_path):
    two.b.stop()
    assert "Connection refused" in two.run("export", "-o", tmp_path / "d.json", code=1).stderr
    assert not (tmp_path / "d.json").exists()
