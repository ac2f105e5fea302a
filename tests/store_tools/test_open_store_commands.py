"""`gantrymq store` while a broker has the store open, and after one was killed: output and exit codes."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from small_store import START_MS, SmallStore

from gantrymq.cli import main
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of others are only asked for on Linux")

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX, 1)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def small(tmp_path):
    store = SmallStore(tmp_path / "store")
    for number in range(20):
        store.add("Orders", number % 2, f"body {number} ".encode() * 9, f"key-{number}")
    store.write()
    (store.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(START_MS + 7000, START_MS + 7000, 0)))
    (store.root / "abort").write_text("1")
    return store


@pytest.fixture
def held(small):
    """Another process has the lock that brokers take, Java's and ours."""
    words = [sys.executable, "-c", HOLD, str(small.root / "lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield
        process.stdin.close()


def run(*words, code):
    done = CliRunner().invoke(main, ["store", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def tear(small):
    """The last record is half written."""
    place, size = small.records[-1]
    small.spoil_log(place + size // 2, bytes(size - size // 2))


@pytest.mark.usefixtures("held")
def test_an_open_store_has_no_verdict_yet(small):
    tear(small)
    done = run("check", small.root, code=3)
    bound = small.records[8][0]
    said = f"cannot be checked completely yet: a broker has it open; sound up to log offset {bound} (checkpoint)"
    assert done.stdout == f"{small.root}: {said}\n"
    assert "stop the broker" in done.stderr
    assert "store repair" not in done.output
    report = json.loads(run("check", small.root, "--output", "json", code=3).stdout)
    assert (report["in_use"], report["vouched_to"], report["damaged"], report["findings"]) == (True, bound, False, [])


@pytest.mark.usefixtures("held")
def test_an_open_store_without_a_checkpoint_says_so(small):
    (small.root / "checkpoint").write_bytes(bytes(4096))
    assert "its checkpoint does not cover anything so far" in run("check", small.root, code=3).stdout


@pytest.mark.usefixtures("held")
def test_real_damage_of_an_open_store_is_told(small):
    small.spoil_log(small.records[2][0] + 100, b"?")
    done = run("check", small.root, code=1)
    assert "log.damaged" in done.stdout
    assert "a broker has it open, the rest cannot be checked yet" in done.stdout
    assert "after its broker has stopped, make a repaired copy with: gantrymq store repair" in done.stderr


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("command", ["repair", "rebuild-queues", "rebuild-index"])
def test_nothing_is_made_of_an_open_store(small, command):
    before = {path.name for path in small.root.parent.iterdir()}
    done = run(command, small.root, code=3)
    assert done.stderr.startswith(f"gantrymq: a broker has {small.root} open")
    assert "stop the broker first" in done.stderr
    assert {path.name for path in small.root.parent.iterdir()} == before


@pytest.mark.usefixtures("held")
def test_reading_an_open_store_goes_on_and_its_end_is_no_verdict(small):
    for words in (("stat", small.root), ("extract", small.root, "--max", 2), ("dump", small.root)):
        assert words[0] == "dump" or "a broker has" in run(*words, code=0).stderr
    tear(small)
    run("stat", small.root, code=3)
    run("extract", small.root, code=3)
    assert "nothing found" in run("extract", small.root, "-t", "No", "--max", 1, code=3).stderr


def test_a_store_that_a_broker_was_killed_with_is_sound(small):
    tear(small)
    done = run("check", small.root, code=0)
    assert "(log.torn)" in done.stdout
    assert "sound for a store whose broker was killed: the next start of a broker repairs" in done.stdout
    assert "store repair" not in done.output


def test_a_killed_broker_explains_no_damage_before_the_checkpoint(small):
    tear(small)
    small.spoil_log(small.records[2][0] + 100, b"?")
    done = run("check", small.root, code=1)
    assert "damaged, " in done.stdout
    assert "the next start of a broker repairs" in done.stdout
    assert "gantrymq store repair" in done.stderr


def test_a_broker_that_comes_while_a_store_is_checked_is_noticed(small, monkeypatch):
    answers = iter([False, True])
    monkeypatch.setattr("gantrymq_store_tools.commands.check.in_use", lambda root: next(answers))
    tear(small)
    assert "cannot be checked completely yet" in run("check", small.root, code=3).stdout
