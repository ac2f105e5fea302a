"""``group reset`` and ``group clone`` on a broker: members online or not, kept by the broker or by its members."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client.admin.broker_offsets import BrokerOffsets
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import Queue
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request

pytest.importorskip("gantrymq_storage_memory")

DEADLINE_S = 30.0
MEMBERS_KEEP = {"useServerSideResetOffset": False}


class Member:
    """A member of a group, on the broker's loop, that keeps what it is asked."""

    def __init__(self, running, group, topic):
        self.running, self.asked, self._news = running, [], asyncio.Event()
        running.run(self._join(group, topic))

    def requests(self, connection, commands):
        self.asked += commands
        self._news.set()

    async def _join(self, group, topic):
        subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [subscription]}
        self._client = RemotingClient(self.running.cluster.world, handler=self)
        connection = await self._client.connect(self.running.broker_address)
        body = json.dumps({"clientID": "c1", "consumerDataSet": [consumer]}).encode()
        assert (await connection.call(request(34, None, body), 5)).code == 0

    def told(self, code):
        """Wait for a request of *code*, for which the broker waits for no answer."""
        self.running.run(self._until(code))
        return [each for each in self.asked if each.code == code]

    async def _until(self, code):
        async with asyncio.timeout(DEADLINE_S):
            while code not in [each.code for each in self.asked]:
                self._news.clear()
                await self._news.wait()

    def leave(self):
        self.running.run(self._client.close())


@pytest.fixture
def setting(gantrymq_broker_factory):
    """``setting(**settings)`` starts a broker with 5 messages in each queue of T, and group CG; returns a command."""

    def start(queues=2, **settings):
        running = gantrymq_broker_factory(settings=settings)
        running.create_topic("T", queues)
        for number in range(5):
            for queue_id in range(min(queues, 2)):
                running.put("T", b"%d" % number, queue_id=queue_id)

        def command(*words, code=0):
            done = CliRunner().invoke(main, ["group", *words, "-n", running.namesrv, "--output", "json"])
            assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
            return json.loads(done.stdout) if code == 0 else done.stderr

        command.running = running
        command("create", "-g", "CG")
        return command

    return start


def committed(command, group="CG", queues=2):
    running = command.running
    return [running.call(running.broker.offsets.committed, group, Queue("T", queue_id)) for queue_id in range(queues)]


@pytest.mark.parametrize(("to", "there"), [("earliest", 0), ("latest", 5), ("3", 3), ("2020-01-01", 0)])
@pytest.mark.parametrize("settings", [{}, MEMBERS_KEEP], ids=["by the broker", "by commits"])
def test_a_group_that_is_offline_goes_on_where_it_is_told(setting, settings, to, there):
    command = setting(**settings)
    found = command("reset", "CG", "-t", "T", "--to", to)
    assert committed(command) == [there, there]
    assert [(q["before"], q["after"], q["max_offset"]) for q in found["queues"]] == [(None, there, 5)] * 2
    assert (found["skipped"], found["read_again"], found["online"]) == (2 * there, 0, 0)
    assert found["by"] == (["commit"] if settings else ["broker"])


def test_by_time_a_group_goes_on_at_the_first_message_of_then(setting):
    command = setting()
    running = command.running
    stored = [message.store_timestamp for message in running.pull("T")]
    command("reset", "CG", "-t", "T", "--to", str(max(stored)))
    for queue_id, at in enumerate(committed(command)):
        times = [each.store_timestamp for each in running.pull("T") if each.queue_id == queue_id]
        assert at == next((number for number, each in enumerate(times) if each >= max(stored)), 5)


def test_members_that_are_online_do_not_undo_it(setting):
    command = setting()
    member = Member(command.running, "CG", "T")
    found = command("reset", "CG", "-t", "T", "--to", "2")
    assert (found["online"], found["by"], committed(command)) == (1, ["broker"], [2, 2])
    running = command.running
    running.call(running.broker.offsets.commit, "CG", Queue("T", 0), 5)  # of a member that has not met it yet
    assert committed(command) == [2, 2]
    assert 220 not in [each.code for each in member.asked]
    member.leave()


def test_members_of_a_broker_that_leaves_it_to_them_are_told(setting):
    command = setting(**MEMBERS_KEEP)
    running = command.running
    for queue_id in range(2):
        running.call(running.broker.offsets.commit, "CG", Queue("T", queue_id), 4)
    member = Member(running, "CG", "T")
    found = command("reset", "CG", "-t", "T", "--to", "earliest")
    assert (found["by"], found["read_again"]) == (["members"], 8)
    (told,) = member.told(220)
    assert (told.ext["timestamp"], told.ext["isForce"]) == ("0", "true")
    assert "lets the members of CG set their offsets, which accept times only" in command(
        "reset", "CG", "-t", "T", "--to", "3", code=1
    )
    assert "1 members of CG are online at broker" in command(
        "reset", "CG", "-t", "T", "--to", "latest", "-q", "0", code=1
    )
    member.leave()
    assert committed(command) == [4, 4]


def test_a_dry_run_sets_nothing(setting):
    command = setting()
    found = command("reset", "CG", "-t", "T", "--to", "latest", "--dry-run")
    assert (found["dry_run"], found["skipped"], committed(command)) == (True, 10, [None, None])


def test_one_queue_alone(setting):
    command = setting()
    found = command("reset", "CG", "-t", "T", "--to", "4", "-q", "1")
    assert ([q["queue"] for q in found["queues"]], committed(command)) == ([1], [None, 4])


def test_a_thousand_queues(setting):
    command = setting(queues=1000)
    found = command("reset", "CG", "-t", "T", "--to", "latest")
    assert (len(found["queues"]), found["skipped"]) == (1000, 10)
    assert committed(command, queues=1000) == [5, 5, *[0] * 998]


def test_a_group_starts_where_another_is(setting):
    command = setting()
    running = command.running
    running.call(running.broker.offsets.commit, "CG", Queue("T", 0), 3)
    assert command("clone", "CG", "Copy", "--dry-run")["topics"][0]["skipped"] == 3
    assert running.call(running.broker.groups.get, "Copy") is None
    found = command("clone", "CG", "Copy")
    assert [(each["topic"], len(each["queues"])) for each in found["topics"]] == [("T", 1)]
    assert committed(command, "Copy") == [3, None]
    assert running.call(running.broker.groups.get, "Copy").retry_max_times == 16


def test_a_clone_says_that_attributes_stay_behind(setting):
    running = setting().running
    config = running.call(running.broker.groups.require, "CG")
    config.attributes["color"] = "red"
    running.call(running.broker.offsets.commit, "CG", Queue("T", 0), 3)
    done = CliRunner().invoke(main, ["group", "clone", "CG", "Copy", "-n", running.namesrv])
    assert done.exit_code == 0
    assert "attributes of CG are not cloned to Copy: color" in done.stderr
    assert running.call(running.broker.groups.get, "Copy").attributes == {}


def test_tables_are_for_people(setting):
    running = setting(queues=50).running
    done = CliRunner().invoke(main, ["group", "reset", "CG", "-t", "T", "--to", "latest", "-n", running.namesrv])
    assert "CG on topic T: 10 messages are skipped, 0 are read again" in done.stdout
    assert "2 of 50 queues, of those that change; --output json has all" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[1:] for row in rows if row and row[-1] == "5"] == [
        ["0", "0", "5", "-", "5", "5"],
        ["1", "0", "5", "-", "5", "5"],
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("reset", "NOBODY", "-t", "T", "--to", "latest"), "there is no group NOBODY"),
        (("reset", "CG", "-t", "Nope", "--to", "latest"), "no name server knows topic Nope"),
        (("reset", "CG", "-t", "T", "--to", "6"), "offset 6 is not in queue 0 of"),
        (("reset", "CG", "-t", "T", "--to", "latest", "-q", "2"), "topic T has no queue 2"),
        (("clone", "CG", "Copy", "-t", "T"), "CG has committed nothing on topic T; nothing was changed"),
        (("clone", "CG", "Copy"), "CG has committed nothing; see: gantrymq group progress -g CG"),
        (("clone", "NOBODY", "Copy", "-t", "T"), "there is no group NOBODY"),
    ],
)
def test_what_cannot_be_is_a_sentence(setting, words, says):
    command = setting()
    assert says in command(*words, code=1)
    assert committed(command) == [None, None]


def test_a_group_is_not_cloned_to_itself(setting):
    assert "a group is not cloned to itself" in setting()("clone", "CG", "CG", code=2)


def test_one_that_ends_halfway_says_so(setting, monkeypatch):
    command = setting()
    answered = BrokerOffsets.set_by_broker

    async def half(self, group, moves):
        await answered(self, group, moves[:1])
        raise BrokerRefused(1, "out of breath", self.address)

    monkeypatch.setattr(BrokerOffsets, "set_by_broker", half)
    said = command("reset", "CG", "-t", "T", "--to", "latest", code=1)
    assert "out of breath; some queues may be set already, run the command again" in said
    monkeypatch.undo()
    command("reset", "CG", "-t", "T", "--to", "latest")
    assert committed(command) == [5, 5]
