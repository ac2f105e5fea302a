"""``gantrymq context``, and options of the name servers before the command."""

import json
import os

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import MainGroup, main
from gantrymq.commands.output import namesrv_option
from gantrymq.world.real import RealFiles


@pytest.fixture(autouse=True)
def config(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    return tmp_path / "gantrymq" / "contexts.json"


@pytest.fixture
def asking(monkeypatch):
    """Add the command ``ask``, which prints the name servers and TLS settings that a client would use."""

    @click.command()
    @namesrv_option
    def ask(namesrv):
        click.echo(
            " ".join([namesrv, *(os.environ[key] for key in ("tls.enable", "tls.config.file") if key in os.environ)])
        )

    found = MainGroup.get_command
    monkeypatch.setattr(
        MainGroup, "get_command", lambda self, ctx, name: ask if name == "ask" else found(self, ctx, name)
    )


def invoke(*words, code=0):
    before = dict(os.environ)
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    assert dict(os.environ) == before
    return done.output.strip()


def test_a_context_names_the_cluster_of_a_command(asking, tmp_path):
    tls = tmp_path / "tls.properties"
    tls.write_text("tls.client.authServer=true\n")
    assert invoke("context", "add", "prod", "-n", "a:9876;b:9876", "--tls", "--tls-config", tls).startswith(
        "context prod added; use it with: gantrymq -c prod"
    )
    invoke("context", "add", "test", "-n", "c:9876")
    assert invoke("-c", "prod", "ask") == f"a:9876;b:9876 true {tls}"
    assert invoke("--context", "test", "ask") == "c:9876"
    assert invoke("ask") == "127.0.0.1:9876"


def test_the_next_command_quotes_a_name_of_two_words():
    assert invoke("context", "add", "my lab", "-n", "a:9876").endswith("gantrymq -c 'my lab' status")
    again = invoke("context", "add", "my lab", "-n", "a:9876", code=1)
    assert again.endswith("remove it first with: gantrymq context remove 'my lab'")


def test_options_override_a_context_and_the_environment(asking, monkeypatch):
    invoke("context", "add", "prod", "-n", "a:9876")
    monkeypatch.setenv("NAMESRV_ADDR", "e:9876")
    assert invoke("ask") == "e:9876"
    assert invoke("-c", "prod", "ask") == "a:9876"
    assert invoke("-c", "prod", "-n", "b:9876", "ask") == "b:9876"
    assert invoke("-c", "prod", "ask", "-n", "d:9876") == "d:9876"
    assert invoke("-n", "b:9876", "--tls", "ask") == "b:9876 true"


def test_contexts_are_listed_and_removed():
    assert invoke("context", "list") == "no contexts; add one with: gantrymq context add NAME -n ADDR"
    invoke("context", "add", "prod", "-n", "a:9876")
    assert invoke("context", "list").splitlines()[-1].split() == ["prod", "a:9876", "no"]
    listed = json.loads(invoke("context", "list", "--output", "json"))
    assert listed == {"contexts": [{"name": "prod", "namesrv": "a:9876", "tls": False, "tls_config": ""}]}
    assert json.loads(invoke("context", "remove", "prod", "--output", "json")) == {"context": "prod"}
    assert json.loads(invoke("context", "list", "--output", "json")) == {"contexts": []}


def test_an_unknown_context_is_wrong_usage_with_the_nearest_name(asking):
    invoke("context", "add", "prod", "-n", "a:9876")
    assert "there is no context prd (did you mean prod?)" in invoke("-c", "prd", "ask", code=2)
    assert "there is no context test;" in invoke("context", "remove", "test", code=2)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("prod", "-n", "b:9876"), 1, "context prod exists; remove it first with: gantrymq context remove prod"),
        (("test", "-n", "nothing"), 2, "Invalid value for '-n'"),
        (("test", "-n", ""), 1, "-n: '' names no server; write host:port;host:port"),
        (("test", "-n", ";"), 1, "-n: ';' names no server"),
        (("test",), 2, "Missing option '-n'"),
        (("", "-n", "b:9876"), 1, "'' cannot name a context"),
        (("test", "-n", "b:9876", "--tls-config", "/no/file"), 1, "does not exist"),
    ],
)
def test_what_cannot_be_added_is_refused(words, code, sentence):
    invoke("context", "add", "prod", "-n", "a:9876")
    assert sentence in invoke("context", "add", *words, code=code)
    assert "a:9876" in invoke("context", "list")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"prod": 5}', '{"prod": {"namesrv": ""}}', '{"prod": {"namesrv": "a:1", "tls": 1}}']
)
def test_a_damaged_file_is_named(config, text):
    config.parent.mkdir()
    config.write_text(text)
    assert str(config) in invoke("context", "list", code=1)


@pytest.mark.parametrize("words", [("add", "test", "-n", "b:9876"), ("remove", "prod")])
def test_two_commands_do_not_lose_changes_of_each_other(config, words):
    invoke("context", "add", "prod", "-n", "a:9876")
    before = config.read_bytes()
    lock = RealFiles().lock_folder(config.parent)
    try:
        assert invoke("context", *words, code=1) == (
            f"gantrymq: {config} is being changed by another command; repeat this one"
        )
    finally:
        lock.release()
    assert config.read_bytes() == before
    invoke("context", *words)
    assert config.read_bytes() != before
