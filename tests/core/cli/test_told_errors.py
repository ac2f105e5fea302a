"""Errors under ``--output json``: one document on stdout, the sentence on stderr, the exit code."""

import json

import click
import pytest
from click.testing import CliRunner

from gantrymq import errors
from gantrymq.cli import ADVICE, main
from gantrymq.client import errors as client_errors
from gantrymq.client.admin import errors as admin_errors
from gantrymq.commands.output import output_option, print_json
from gantrymq.errors import BrokerRefused, ClientError, StoreLocked


class Held(StoreLocked):
    """An error with its own exit code."""

    exit_code = 3


@pytest.fixture
def failing(monkeypatch):
    """Let the command ``failing`` print documents and raise an error."""

    def make(problem, *documents):
        @click.command()
        @output_option
        @click.option("--count", type=int)
        def command(output, count):
            for each in documents:
                print_json(each)
            raise problem

        monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: command if name == "failing" else None)

    return make


def invoke(*words):
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    ("problem", "document"),
    [
        (
            BrokerRefused(17, "no such topic", "127.0.0.1:10911"),
            {
                "error": "BrokerRefused",
                "message": "127.0.0.1:10911 answered code 17: no such topic",
                "exit_code": 1,
                "code": 17,
            },
        ),
        (ClientError("not today"), {"error": "ClientError", "message": "not today", "exit_code": 1}),
        (Held("somebody has it"), {"error": "Held", "message": "somebody has it", "exit_code": 3}),
    ],
)
@pytest.mark.parametrize("words", [("--output", "json"), ("--output=json",)])
def test_an_error_is_a_document(failing, problem, document, words):
    failing(problem)
    done = invoke("failing", *words)
    assert json.loads(done.stdout) == document
    assert (done.exit_code, done.stderr) == (document["exit_code"], f"gantrymq: {document['message']}\n")


@pytest.mark.parametrize("words", [(), ("--output", "text"), ("--output=text",)])
def test_for_people_it_is_a_sentence_alone(failing, words):
    failing(ClientError("not today"))
    done = invoke("failing", *words)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "gantrymq: not today\n")


def test_in_a_stream_it_is_the_last_document(failing):
    failing(ClientError("lost"), {"message": 1}, {"message": 2})
    lines = invoke("failing", "--output", "json").stdout.splitlines()
    assert [json.loads(line).get("error") for line in lines] == [None, None, "ClientError"]


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("failing", "--count", "x"), "BadParameter", "'x' is not a valid integer"),
        (("failing", "--no-such"), "NoSuchOption", "--no-such"),
        (("failing", "more"), "UsageError", "unexpected extra argument"),
        (("filing",), "UsageError", "No such command 'filing'"),
        (("--no-such", "failing"), "NoSuchOption", "--no-such"),
    ],
)
def test_wrong_usage_is_a_document_and_2(failing, words, error, said):
    failing(ClientError("not reached"))
    done = invoke(*words, "--output", "json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["error"], told["exit_code"]) == (2, error, 2), done.output
    assert said in told["message"]
    assert done.stderr.startswith("Usage: ")
    assert invoke(*words).stdout == ""


def test_an_output_that_there_is_not_is_for_people(failing):
    failing(ClientError("not reached"))
    done = invoke("failing", "--output", "xml")
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("words", [("topics",), ("Topic",), ("pluginz",)])
def test_a_misspelt_command_is_told_what_may_have_been_meant(words):
    """Errors of core, and those of installed plugins."""
    listed = dict(main.purposes(click.Context(main)))
    near = next((name for name in listed if name[:4].lower() == words[0][:4].lower()), None)
    said = invoke(*words).stderr
    assert f"No such command '{words[0]}'" in said
    assert (near is None) == ("Did you mean" not in said), said


def test_a_name_server_that_does_not_answer_is_told_with_the_option_that_names_another():
    pytest.importorskip("gantrymq_admin")
    done = invoke("topic", "list", "-n", "127.0.0.1:1", "--output", "json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["error"] == "NoNameServer"
    assert told["message"].endswith("; 'gantrymq start' starts one, -n names another")
    assert "is one running there" not in told["message"]  # advice for programs
    assert done.stderr == f"gantrymq: {told['message']}\n"


@pytest.mark.parametrize("name", ADVICE)
def test_an_error_of_the_library_is_told_with_the_command_or_option_that_helps(failing, name):
    (made,) = {vars(module)[name] for module in (errors, client_errors, admin_errors) if hasattr(module, name)}

    def error(text):
        problem = made.__new__(made)  # of any class, with any constructor
        problem.args = (text,)
        return problem

    failing(error("too bad"))
    assert invoke("failing").stderr == f"gantrymq: too bad{ADVICE[name]}\n"
    failing(error("see: gantrymq topic list"))  # a command's own advice has precedence
    assert invoke("failing").stderr == "gantrymq: see: gantrymq topic list\n"
