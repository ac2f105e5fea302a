"""`gantrymq message pull`, and commands that read and send, for places that do not exist."""

import time

import pytest
from click.testing import CliRunner
from faulty_broker import DEADLINE_S, start_broker

from gantrymq.cli import main
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_admin")
pytest.importorskip("gantrymq_diagnosis")

SMALL = {
    "plugins": "diagnosis,filter_tag,storage_mmap",
    "store": "mmap",
    "mappedFileSizeCommitLog": 8192,
    "fileReservedTime": 0,
    "brokerName": "one",
}
BODY = b"b" * 3000  # two to a log file
NOT_PULL = (("tail",), ("send", "--body", "x"))


@pytest.fixture
def running(tmp_path):
    """A broker with topic T, of two queues."""
    with RunningBroker(tmp_path, SMALL) as broker:
        broker.create_topic("T", 2)
        yield broker


@pytest.fixture
def message(running):
    """Result of a `gantrymq message` command: its exit code, stdout, the last sentence of stderr."""

    def run(*words):
        done = CliRunner().invoke(main, ["message", *words, "-t", "T", "-n", running.namesrv])
        return f"exit {done.exit_code}", done.stdout, done.stderr.splitlines()

    return run


def test_bi235_an_offset_behind_the_end_of_queues(running, message, row):
    running.put("T", BODY, queue_id=1)
    code, printed, said = message("pull", "--from-offset", "2")
    row.check(said[0], code, offset=2, queue="one:0", end=0, other="one:1", last=1)
    assert (printed, said[1:]) == ("", ["nothing to print: T has no such messages"])
    assert message("pull", "--from-offset", "0")[2] == []


def test_bi236_an_offset_that_was_deleted(running, message, row):
    for _ in range(7):
        running.put("T", BODY, queue_id=0)
    done = CliRunner().invoke(main, ["broker", "clean", "log", "-n", running.namesrv])
    assert done.exit_code == 0
    deadline = time.monotonic() + DEADLINE_S
    while True:  # deleted in the background
        code, printed, said = message("pull", "--from-offset", "0", "--queue", "0")
        if said or time.monotonic() > deadline:
            break
    first = said[0].rpartition("(at ")[2].removesuffix(")")
    row.check(said[0], code, offset=0, queue="one:0", first=first)
    assert int(first) > 0
    assert printed


def test_bi237_an_offset_and_a_time(message, row):
    code, printed, said = message("pull", "--from-offset", "0", "--from-time", "-10m")
    row.check(said[-1], code)
    assert printed == ""


@pytest.mark.parametrize("words", [("pull",), *NOT_PULL])
def test_bi238_what_names_no_queue(message, row, words):
    code, printed, said = message(*words, "--queue", "first")
    row.check(said[-1], code, text="first")
    assert printed == ""


@pytest.mark.parametrize("words", [("pull",), *NOT_PULL])
def test_bi239_a_queue_that_the_topic_does_not_have(message, row, words):
    code, printed, said = message(*words, "--queue", "9")
    row.check(said[-1].removeprefix("gantrymq: "), code, topic="T", queue=9, queues="one:0, one:1")
    assert printed == ""


def test_bi240_the_id_of_queues_of_several_brokers(running, message, row, tmp_path):
    more = {"plugins": "filter_tag,storage_mmap", "namesrvAddr": running.namesrv, "brokerName": "two"}
    other = start_broker(tmp_path / "other", **more)
    try:
        done = CliRunner().invoke(main, ["topic", "create", "-t", "T", "-r", "1", "-w", "1", "-n", running.namesrv])
        assert done.exit_code == 0, done.output
        for words in (("pull",), *NOT_PULL):
            code, printed, said = message(*words, "--queue", "0")
            row.check(said[-1], code, queue=0, queues="one:0, two:0")
            assert printed == ""
    finally:
        other.close()


def test_bi265_a_broker_s_address_for_a_name_server_s(running, row):
    done = CliRunner().invoke(main, ["message", "pull", "-t", "T", "-n", running.broker_address])
    said = done.stderr.removeprefix("gantrymq: ")
    request = "GET_ROUTEINFO_BY_TOPIC (105)"
    row.check(said, f"exit {done.exit_code}", address=running.broker_address, request=request)


def test_bi266_a_name_server_s_address_for_a_broker_s(running, row):
    done = CliRunner().invoke(main, ["broker", "config", "get", "-b", running.namesrv, "-n", running.namesrv])
    said = done.stderr.removeprefix("gantrymq: ")
    row.check(said, f"exit {done.exit_code}", address=running.namesrv, request="GET_BROKER_CONFIG (26)")
