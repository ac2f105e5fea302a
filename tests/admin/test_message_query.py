"""`message query` and `message view` against a name server and a broker of this process."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


@pytest.fixture
def server(gantrymq_broker_factory):
    return gantrymq_broker_factory({"store": "memory"})


@pytest.fixture
def command(server):
    """Run a ``message`` command; returns what it wrote."""

    def run(*words, code=0):
        done = CliRunner().invoke(main, ["message", *words, "-n", server.namesrv])
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.fixture
def sent(server, command):
    """Three messages, as `message send` tells of them."""
    server.create_topic("T", 1)
    return [
        json.loads(command("send", "-t", "T", "--body", f"b{n}", "--keys", f"all k{n}", "--output", "json"))
        for n in range(3)
    ]


def documents(text):
    return [json.loads(line) for line in text.splitlines()]


def test_messages_are_found_by_key(command, sent):
    found = documents(command("query", "-t", "T", "--key", "all", "--output", "json"))
    assert [each["body"] for each in found] == ["b0", "b1", "b2"]
    assert [each["message_id"] for each in found] == [each["message_id"] for each in sent]
    (last,) = documents(command("query", "-t", "T", "--key", "all", "--max", "1", "--output", "json"))
    assert last["body"] == "b2"
    assert "b1" in command("query", "-t", "T", "--key", "k1")


def test_messages_are_found_by_unique_key(command, sent):
    (found,) = documents(command("query", "-t", "T", "--unique-key", sent[1]["message_id"], "--output", "json"))
    assert found["body"] == "b1"


def test_times_bound_a_query(command, sent):
    (first, *_) = documents(command("query", "-t", "T", "--key", "all", "--output", "json"))
    stored = first["stored_ms"]
    words = ("query", "-t", "T", "--key", "all")
    assert command(*words, "--begin", "2020-01-01", "--end", str(stored + 60_000))
    assert "no message of topic T with key all" in command(*words, "--end", "2020-01-01 10:00:00", code=1)
    assert "--begin" in command(*words, "--begin", "yesterday", code=2)
    unique = ("query", "-t", "T", "--unique-key", first["message_id"])
    assert command(*unique, "--end", str(stored))
    assert "after --end" in command(*unique, "--end", str(stored - 1), code=1)


def test_what_is_not_there_is_said(command, sent):
    said = command("query", "-t", "T", "--key", "nobody", code=1)
    assert said.startswith("gantrymq: topic T has no message with key nobody; ")
    assert "--key or --unique-key" in command("query", "-t", "T", code=2)
    assert "--key or --unique-key" in command("query", "-t", "T", "--key", "a", "--unique-key", "b", code=2)


def test_a_message_is_viewed_by_either_id(command, sent):
    text = command("view", sent[1]["offset_id"])
    assert "Body:             b1" in text
    assert f"Message id:       {sent[1]['message_id']}" in text
    assert "  KEYS:           all k1" in text
    (found,) = documents(command("view", sent[1]["offset_id"], "--output", "json"))
    assert (found["body"], found["keys"]) == ("b1", "all k1")
    (same,) = documents(command("view", sent[1]["message_id"], "-t", "T", "--output", "json"))
    assert same["offset_id"] == sent[1]["offset_id"]


def test_an_id_of_the_client_needs_the_topic(command, sent):
    unique = sent[0]["message_id"]
    assert f"gantrymq message view {unique} -t TOPIC" in command("view", unique, code=2)


def test_a_place_without_a_message_is_said(command, sent):
    assert "no message starts at log offset 1" in command("view", sent[0]["offset_id"][:-1] + "1", code=1)


@pytest.fixture
def moved(tmp_path):
    """The offset id of a message whose broker has another address now, and the broker."""
    pytest.importorskip("gantrymq_storage_mmap")
    from gantrymq_testing.running_broker import RunningBroker

    settings = {"store": "mmap", "listenPort": 0}
    with RunningBroker(tmp_path / "broker", settings) as before:
        before.create_topic("T", 1)
        offset_id = before.send("T", b"kept", keys="k").offset_id
    with RunningBroker(tmp_path / "broker", settings) as now:
        assert now.broker_address != before_address(offset_id)
        yield offset_id, now


def before_address(offset_id):
    return format_address(*parse_offset_id(offset_id)[:2])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("message", "view"), 0, "kept"),
        (("message", "consumers"), 0, "T broker-a:0 @0"),
        (("transactions", "resume"), 1, "is no message of TRANS_CHECK_MAX_TIME_TOPIC"),
    ],
)
def test_an_offset_id_is_found_after_the_broker_has_moved(moved, words, code, told):
    offset_id, now = moved
    done = CliRunner().invoke(main, [*words, offset_id, "-n", now.namesrv])
    assert done.exit_code == code, done.output
    assert told in " ".join((done.stdout + done.stderr).split())


def test_another_record_at_the_same_place_is_not_taken_for_it(server, command, sent):
    """An id of another broker, which had a record at the same log offset; its address is that of ours now."""
    other = "7F000002" + sent[0]["offset_id"][8:]
    said = command("view", other, code=1)
    assert "b0" not in said and "127.0.0.2" in said


def test_a_misspelt_topic_is_told_with_the_one_that_was_meant(server, command):
    server.create_topic("Orders", 1)
    for words in (("tail", "-t", "Ordres"), ("query", "-t", "Ordres", "--key", "k"), ("pull", "-t", "Ordres")):
        assert "no name server knows topic Ordres (did you mean Orders?)" in command(*words, code=1)
