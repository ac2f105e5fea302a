"""Filters that no plugin registers, and projects that cannot be created."""

import json
import subprocess

import pytest

pytest.importorskip("gantrymq_kit")

from faulty_broker import DEADLINE_S, FAST, PROGRAM, start_broker

PLUGINS = FAST["plugins"] + ",kit"


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """The broker of `broker`, with guarded filters."""
    running = start_broker(tmp_path_factory.mktemp("own") / "store", plugins=PLUGINS)
    yield running
    running.close()


@pytest.mark.parametrize("name", ["MISSING", "a.b-c_1"])
def test_bi230_a_name_that_no_plugin_offers(broker, row, name):
    with broker.peer() as peer:
        assert peer.create_topic("Own").code == 0
        answer = peer.pull("Own", subscription=f"{name}:: a = 1", expressionType="SQL92")
        row.check(answer.remark, answer.code, name=name)
        data = {"topic": "Own", "subString": f"{name}::x", "expressionType": "SQL92"}
        answer = peer.ask(46, None, json.dumps({"group": "CG", "subscriptionData": data}).encode())
        row.check(answer.remark, answer.code, name=name)


def test_bi231_an_attribute_that_cannot_be_used(broker, row):
    with broker.peer() as peer:
        assert peer.create_topic("Own").code == 0
        group = {"groupName": "Wrong", "attributes": {"+filter": "MISSING:: a"}}
        assert peer.ask(200, None, json.dumps(group).encode()).code == 0
        answer = peer.pull("Own", consumerGroup="Wrong")
        row.check(answer.remark, answer.code, group="Wrong", name="MISSING", text="a")
        assert peer.pull("Own", consumerGroup="Right").code == 19


def new(*words):
    """Result of `gantrymq plugin new`."""
    done = subprocess.run(
        [PROGRAM, "plugin", "new", *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return done.stderr.removeprefix("gantrymq: "), f"exit {done.returncode}"


@pytest.mark.parametrize("name", ["two words", "1st", "class"])
def test_bi232_a_name_that_is_no_word(row, name):
    row.check(*new("filter", name), name=repr(name))


def test_bi233_a_folder_with_files_in_it(row, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes").write_text("x")
    row.check(*new("filter", "colour", "--into", folder), folder=folder)
    assert [each.name for each in folder.iterdir()] == ["notes"]


@pytest.mark.parametrize("value", ["0", "-5"])
def test_bi234_no_time_for_filters(program, row, tmp_path, value):
    sentence, code = program.refusal("--store", tmp_path / "store", "--set", f"customFilterBudgetMs={value}")
    row.check(sentence, code, value=value)
