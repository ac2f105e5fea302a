"""mqadmin's names: each is known, each option leads to one that there is, and the commands do what they stand for."""

import json
import lzma
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.errors import PluginError
from gantrymq_admin.mqadmin_names import ELSEWHERE, NOT_BUILT, NOTHING, SAME

GOLDEN = Path(__file__).parents[1] / "interop" / "data" / "mqadmin.json.xz"
ALL = [*SAME, *ELSEWHERE, *NOTHING, *NOT_BUILT]


def invoke(*words):
    return CliRunner().invoke(main, words)


def command_of(words):
    """The command that *words* begin with, and the words after it; a group may be a command by itself."""
    command, words = main, list(words)
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None and command.invoke_without_command:
            break
        command, words = found, words[1:]
    return command, words


def test_every_name_of_mqadmin_is_in_one_table():
    said = next(
        each
        for each in json.loads(lzma.decompress(GOLDEN.read_bytes()))["commands"]
        if each["name"] == "72-noarguments"
    )
    names = {line.split()[0] for line in said["output"].splitlines()[1:] if line.startswith("   ")}
    assert len(names) > 80
    assert names - set(ALL) == set()
    assert len(ALL) == len(set(ALL))


@pytest.mark.parametrize("name", SAME)
def test_options_lead_to_options_that_there_are(name):
    command, always = command_of(SAME[name].ours.split())
    assert command is not None
    there = {word for parameter in command.params for word in parameter.opts if isinstance(parameter, click.Option)}
    ours = [text.partition(":")[2] for text in SAME[name].options.split()]
    assert {word for word in [*ours, *always] if word.startswith("-")} <= there
    if "@" in ours:
        assert any(isinstance(parameter, click.Argument) for parameter in command.params)


@pytest.mark.parametrize("name", ALL)
def test_every_name_explains_itself(name):
    done = invoke(name, "--help")
    assert done.exit_code == 0, done.output
    assert name in done.stdout


def test_the_help_lists_none_of_them():
    listed = invoke("--help").stdout
    assert [name for name in [*ALL, "mqadmin"] if f"  {name} " in listed and name not in ("producer", "consumer")] == []


@pytest.mark.parametrize("name", [*ELSEWHERE, *NOTHING, *NOT_BUILT])
def test_one_without_a_counterpart_says_so(name):
    done = invoke(name, "-n", "127.0.0.1:9", "-x", "1")
    assert done.exit_code == 1
    assert done.stderr.startswith("gantrymq: gantrymq has no")


@pytest.mark.parametrize("sentence", ELSEWHERE.values())
def test_what_a_sentence_advises_exists(sentence):
    for part in sentence.split("gantrymq ")[1:]:
        words = part.replace(";", "").replace(",", "").split()
        try:
            command, _ = command_of(words)
        except PluginError:  # one that core knows, of a plugin that is not here
            continue
        assert command is not None, part


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("resetOffsetByTime -g G -t T -s now", "group reset G -t T --to latest"),
        ("resetOffsetByTime -g G -t T -s -1", "group reset G -t T --to latest"),
        ("resetOffsetByTime -g G -t T -s 0 -f true", "group reset G -t T --to earliest"),
        ("resetOffsetByTime -g G -t T -s 1 -o 7 -q 2", "group reset G -t T -q 2 --to 7"),
        (
            "resetOffsetByTime -g G -t T -s 2026-11-21#10:00:00:000",
            "group reset G -t T --to '2026-11-21 10:00:00.000'",
        ),
        ("updateTopic -t T -r 3 -a +a=b,-c", "topic create -t T -r 3 -a +a=b -a -c"),
        ("updateBrokerConfig -b H:1 -k some -v thing", "broker config set -b H:1 some=thing"),
        ("queryMsgByOffset -t T -b broker-a -i 3 -o 9", "message pull --max 1 -t T --from-offset 9 --queue broker-a:3"),
        ("consumeMessage -t T -i 3 -c 5", "message pull -t T --max 5 --queue 3"),
        ("cloneGroupOffset -s A -d B -t T -o true", "group clone A B -t T"),
        ("topicList -n H:1 --output json", "topic list --all -n H:1 --output json"),
        ("queryMsgByKey --topic T --msgKey k -b 5", "message query -t T --key k --begin 5"),
        ("printMsgByQueue -t T -a b -i 1 -s A -d true", "message pull --max 2147483647 -t T -e A --queue b:1"),
    ],
)
def test_words_become_ours(words, ours, monkeypatch):
    import shlex

    ran = []
    monkeypatch.setattr("gantrymq_admin.commands.mqadmin._run", ran.append)
    done = invoke(*words.split())
    assert (done.exit_code, ran) == (0, [shlex.split(ours)]), done.output


def test_usage_that_is_wrong_is_that_of_our_command():
    done = invoke("topicStatus", "--output", "json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"] == "MissingParameter"
    assert done.stderr.startswith("Usage: main topic status ")


def test_a_topic_is_made_and_seen_and_deleted(tmp_path):
    for each in ("filter_tag", "storage_memory"):
        pytest.importorskip(f"gantrymq_{each}")
    from gantrymq_testing.running_broker import RunningBroker

    running = RunningBroker(tmp_path)
    running.start()
    try:
        at = ("-n", running.namesrv)
        assert invoke("updateTopic", *at, "-t", "T", "-r", "2", "-w", "2", "-b", running.broker_address).exit_code == 0
        assert "T" in invoke("topicList", *at).stdout.split()
        assert "SEND_OK" in invoke("sendMessage", *at, "-t", "T", "-p", "hello", "-k", "a").stdout
        assert "hello" in invoke("queryMsgByKey", *at, "-t", "T", "-k", "a").stdout
        assert json.loads(invoke("topicStatus", *at, "-t", "T", "--output", "json").stdout)["topic"] == "T"
        assert invoke("deleteTopic", *at, "-t", "T").exit_code == 0
        assert "T" not in invoke("topicList", *at).stdout.split()
    finally:
        running.stop()


def test_the_docs_name_those_that_have_a_command():
    page = (Path(__file__).parents[2] / "docs/operations/README.md").read_text()
    listed = " ".join(page.split()).partition("These names are available: ")[2].partition(".")[0]
    assert [name.strip() for name in listed.split(",")] == sorted(SAME)
