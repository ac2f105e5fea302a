"""`topic create` that takes queues away, against a broker of this process."""

import json
from importlib.util import find_spec

import attrs
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.model.topic import TopicConfig

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")

CREATE = ("topic", "create", "-t", "T")


@pytest.fixture
def server(gantrymq_broker_factory):
    return gantrymq_broker_factory({"store": "memory"})


@pytest.fixture
def command(server):
    def run(*words, code=0):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
        assert done.exit_code == code, done.output
        return done

    return run


@pytest.fixture
def send(server, command):
    """Send a message to a queue of T."""
    return lambda queue: command("message", "send", "-t", "T", "--queue", str(queue), "--body", "x")


@pytest.fixture
def queues(server):
    """How many read and write queues T has."""

    async def ask():
        async with Client(server.namesrv) as client, client.admin as admin:
            config = await admin.topic_config(server.broker_address, "T")
            return config.read_queues, config.write_queues

    return lambda: server.run(ask())


def test_fewer_read_queues_are_refused_where_messages_would_be_hidden(server, command, send, queues):
    server.create_topic("T", 4)
    for queue in (2, 3, 3, 0):
        send(queue)
    done = command(*CREATE, "-r", "2", "-w", "2", code=1)
    assert done.stdout == ""
    assert done.stderr == (
        f"gantrymq: topic T has 4 read queues at {server.broker_address}; with 2 no consumer is given what is in "
        "queues 2 to 3, 3 messages now. Two steps lose nothing: first gantrymq topic create -t T -r 4 -w 2, and once "
        "every group has read them (gantrymq group progress -g GROUP) gantrymq topic create -t T -r 2 -w 2 "
        "--fewer-queues\n"
    )
    assert queues() == (4, 4)


def test_the_two_steps_are_taken_as_they_are_told(server, command, send, queues):
    server.create_topic("T", 4)
    send(3)
    command(*CREATE, "-r", "4", "-w", "2")
    told = command(*CREATE, "-r", "2", "-w", "2", code=1).stderr
    assert "Two steps lose nothing: once every group has read them" in told
    assert queues() == (4, 2)
    command(*CREATE, "-r", "2", "-w", "2", "--fewer-queues")
    assert queues() == (2, 2)
    command(*CREATE, "-r", "4", "-w", "2")  # they come back with the queues
    found = command("message", "pull", "-t", "T", "--output", "json").stdout.splitlines()
    assert [json.loads(line)["queue"] for line in found] == [3]


def test_queues_that_hold_nothing_and_get_nothing_may_go(server, command, send, queues):
    server.create_topic("T", 4)
    send(1)
    assert "in queues 2 to 3, 0 messages now" in command(*CREATE, "-r", "2", "-w", "4", code=1).stderr
    command(*CREATE, "-r", "2", "-w", "2")
    assert queues() == (2, 2)


def test_one_queue_less_is_told_as_one(server, command, send):
    server.create_topic("T", 4)
    send(3)
    assert "what is in queue 3, 1 messages now" in command(*CREATE, "-r", "3", "-w", "3", code=1).stderr


def test_a_new_topic_and_more_queues_are_not_losses(server, command, queues):
    command(*CREATE, "-r", "2", "-w", "2")
    command(*CREATE, "-r", "4", "-w", "4")
    assert queues() == (4, 4)


def test_what_is_not_given_stays_as_it_is(server, command):
    async def ask():
        async with Client(server.namesrv) as client, client.admin as admin:
            return await admin.topic_config(server.broker_address, "T")

    async def set_order(order):
        async with Client(server.namesrv) as client, client.admin as admin:
            present = await admin.topic_config(server.broker_address, "T")
            await admin.create_topic(server.broker_address, attrs.evolve(present, order=order, attributes={}))

    command(*CREATE, "-a", "+message.type=FIFO")
    new = server.run(ask())
    assert (new.read_queues, new.write_queues, new.perm) == (8, 8, 6)
    command(*CREATE, "-r", "16", "-w", "12", "--perm", "2")
    server.run(set_order(True))
    for words, wanted in (
        (("--perm", "6"), (16, 12, 6)),
        (("-r", "20"), (20, 12, 6)),
        (("-w", "14"), (20, 14, 6)),
        ((), (20, 14, 6)),
    ):
        told = json.loads(command(*CREATE, *words, "--output", "json").stdout)
        found = server.run(ask())
        assert (found.read_queues, found.write_queues, found.perm) == wanted
        assert (told["read_queues"], told["write_queues"], told["perm"]) == wanted
        assert found.order and found.attributes == {"message.type": "FIFO"}


def test_the_broker_does_what_mqadmin_asks_and_logs_what_it_hides(server, command, send, queues, caplog):
    async def shrink():
        async with Client(server.namesrv) as client, client.admin as admin:
            await admin.create_topic(server.broker_address, TopicConfig("T", 2, 2))

    server.create_topic("T", 4)
    send(3)
    send(0)
    server.run(shrink())
    assert queues() == (2, 2)
    (line,) = [each.getMessage() for each in caplog.records if "read queues" in each.getMessage()]
    assert line == (
        "topic T has 2 read queues instead of 4 now: 1 messages in queues 2 to 3 are in no consumer's reach until it "
        "has as many again"
    )
    caplog.clear()
    server.run(shrink())
    assert not caplog.records
