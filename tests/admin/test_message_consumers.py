"""``gantrymq message consumers`` against a name server and a broker of this process."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


@pytest.fixture
def command(gantrymq_broker_factory):
    server = gantrymq_broker_factory({"store": "memory"})
    server.create_topic("T", 1)

    def run(*words, code=0):
        done = CliRunner().invoke(main, [*words, "-n", server.namesrv])
        assert done.exit_code == code, (done.output, done.stderr)
        return done

    run.namesrv = server.namesrv
    return run


def sent(command):
    return json.loads(command("message", "send", "-t", "T", "--body", "b", "--output", "json").stdout)


def test_by_unique_id_and_by_offset_id_for_people_and_for_scripts(command):
    message = sent(command)
    command("group", "create", "-g", "behind")
    command("group", "create", "-g", "skipped")
    command("group", "reset", "skipped", "-t", "T", "--to", "latest")
    command("group", "reset", "behind", "-t", "T", "--to", "earliest")
    for words in ((message["message_id"], "-t", "T"), (message["offset_id"],)):
        text = command("message", "consumers", *words)
        behind, skipped = (line for line in text.stdout.splitlines() if line.strip().startswith(("behind", "skipped")))
        assert "not-yet" in behind and "Position 0, committed 0" in behind
        assert "passed" in skipped and "likely" in skipped
        assert "no trace of it in RMQ_SYS_TRACE_TOPIC" in text.stderr
        found = json.loads(command("message", "consumers", *words, "--output", "json").stdout)
        assert [(each["group"], each["reason"]) for each in found["groups"]] == [
            ("behind", "not-yet"),
            ("skipped", "passed"),
        ]
        assert found["message"]["queue"]["topic"] == "T"
        assert found["missing"] == []


def test_pages(command):
    message = sent(command)
    for group in ("one", "two", "three"):
        command("group", "create", "-g", group)
        command("group", "reset", group, "-t", "T", "--to", "earliest")
    text = command("message", "consumers", message["offset_id"], "--max", "2")
    assert "1 more group;" in text.stderr
    found = json.loads(command("message", "consumers", message["offset_id"], "--start", "2", "--output", "json").stdout)
    assert [each["group"] for each in found["groups"]] == ["two"]


def test_what_was_not_found(command):
    text = command("message", "consumers", "not an id", code=2)
    assert "gantrymq message consumers" in text.stderr
    command("message", "consumers", "0" * 32, "-t", "T", code=1)


def test_a_delayed_message_has_no_consumers_yet(command):
    pytest.importorskip("gantrymq_schedule")
    words = ("-t", "T", "--body", "b", "--delay", "1h", "--output", "json")
    message = json.loads(command("message", "send", *words).stdout)
    text = command("message", "consumers", message["message_id"], "-t", "rmq_sys_wheel_timer")
    assert "it is a delayed message" in text.stdout
    assert "No group can receive it" in text.stdout
