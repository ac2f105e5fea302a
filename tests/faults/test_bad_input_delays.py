"""Invalid delay levels, unreadable saved offsets, and queries of pending messages."""

import pytest
from click.testing import CliRunner

pytest.importorskip("gantrymq_schedule")

from faulty_broker import FAST, start_broker

from gantrymq.cli import main
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS
from gantrymq_schedule.pending import PENDING

PLUGINS = FAST["plugins"] + ",schedule"


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """The broker of `broker`, with delays."""
    running = start_broker(tmp_path_factory.mktemp("delays") / "store", plugins=PLUGINS)
    yield running
    running.close()


@pytest.mark.parametrize("value", ["abc", "3s", "1_0", " 3", "2147483648", "9" * 30])
def test_bi158_a_delay_level_that_is_no_number(broker, row, value):
    with broker.peer() as peer:
        answer = peer.send("Delayed", b"x", f"DELAY\x01{value}\x02")
        row.check(answer.remark, answer.code, value=value)


@pytest.mark.parametrize(("name", "value"), [("DELAY", 3), ("DELAY", 99), ("TIMER_DELAY_SEC", 7)])
def test_bi159_a_batch_with_a_delay(broker, row, name, value):
    with broker.peer() as peer:
        entry = b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x" + b"\0\0"
        answer = peer.send("Delayed", entry, f"{name}\x01{value}\x02", m="true")
        row.check(answer.remark, answer.code, name=name, value=value)


def test_bi160_a_progress_that_cannot_be_read(program, row, tmp_path):
    folder = tmp_path / "store/config"
    folder.mkdir(parents=True)
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (folder / name).write_text("{")
    code, errors = program.ends("--store", tmp_path / "store", "--set", f"plugins={PLUGINS},nameserver")
    sentence = errors.rpartition("gantrymq: ")[2]
    problem = sentence.partition(".json: ")[2].partition(", and delayOffset")[0]
    row.check(sentence.strip(), code, path=folder / "delayOffset.json", problem=problem)


def test_bi161_a_page_of_pending_messages_that_begins_nowhere(broker, row):
    with broker.peer() as peer:
        answer = peer.ask(PENDING, {"place": "3:x"})
        row.check(answer.remark, answer.code, place="3:x")


def test_bi162_a_page_of_pending_messages_of_an_unknown_kind(broker, row):
    with broker.peer() as peer:
        answer = peer.ask(PENDING, {"source": "stars"})
        kinds = answer.remark.rpartition("there is ")[2]
        assert "levels" in kinds.split(", ")
        row.check(answer.remark, answer.code, source="stars", kinds=kinds)


def test_bi163_a_broker_that_cannot_tell_what_is_pending(gantrymq_broker_factory, row):
    pytest.importorskip("gantrymq_admin")
    from click.testing import CliRunner

    from gantrymq.cli import main

    running = gantrymq_broker_factory({"plugins": "storage_memory,admin"})
    done = CliRunner().invoke(main, ["message", "pending", "-n", running.cluster.namesrv])
    sentence = str(done.exception) if done.stderr == "" else done.stderr.strip().removeprefix("gantrymq: ")
    row.check(sentence, f"exit {done.exit_code}", address=running.cluster.broker_address)


def test_bi377_a_repair_with_unknown_delay_levels(row, tmp_path):
    store, levels = tmp_path / "store", "20m 1h"
    running = start_broker(store, plugins=PLUGINS, messageDelayLevel=levels)
    with running.peer() as peer:
        assert peer.send("Delayed", b"x", "DELAY\x011\x02").code == 0
    running.close()
    (store / "delayLevels.json").unlink()
    done = CliRunner().invoke(main, ["store", "repair", str(store)])
    said = done.stderr.removeprefix("gantrymq: ")
    row.check(said, f"exit {done.exit_code}", count="1 delayed message", root=store, levels=DEFAULT_DELAY_LEVELS)
    assert not (tmp_path / "store.repaired").exists()
    for command in ("check", "repair"):
        assert CliRunner().invoke(main, ["store", command, str(store), "--delay-levels", levels]).exit_code == 0
