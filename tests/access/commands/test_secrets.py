"""Where commands take secrets from."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gantrymq.errors import ClientError
from gantrymq_access.commands.secrets import SecretSource, secret_options


@click.command()
@secret_options
def read(secret):
    click.echo(f"<{secret.read('shop')}>")


def run(*words, stdin=None):
    return CliRunner().invoke(read, words, input=stdin, env={"SHOP_SECRET": "from-the-environment"})


def test_a_secret_comes_from_a_file_from_standard_input_or_the_environment(tmp_path):
    (tmp_path / "secret").write_text("from-a-file\nsecond line\n")
    assert run("--secret-file", str(tmp_path / "secret")).output == "<from-a-file>\n"
    assert run("--secret-file", "-", stdin="from-stdin\r\n").output == "<from-stdin>\n"
    assert run("--secret-env", "SHOP_SECRET").output == "<from-the-environment>\n"
    assert run("--secret", "from-an-option").output == "<from-an-option>\n"


def test_generated_secrets_differ():
    one, other = run("--generate").output, run("--generate").output
    assert one != other and len(one) == len(other) >= 34


def test_without_a_terminal_one_of_the_options_is_needed():
    done = run()
    assert (done.exit_code, "no terminal to ask for the secret of shop" in done.output) == (2, True)


def test_a_terminal_is_asked_twice(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "prompt", lambda text, **given: f"{text} {given}")
    assert SecretSource().read("shop").startswith("Secret of shop {'hide_input': True, 'confirmation_prompt': True")


def test_two_sources_are_wrong_usage():
    done = run("--generate", "--secret-env", "SHOP_SECRET")
    assert (done.exit_code, "in one way only" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (SecretSource(variable="UNSET_VARIABLE"), "no variable UNSET_VARIABLE"),
        (SecretSource(file=Path("/nonexistent/secret")), "cannot be read from /nonexistent/secret"),
        (SecretSource(given=" "), "is empty"),
        (SecretSource(given=" ends with spaces "), "spaces at an end or control characters"),
        (SecretSource(given="tab\there"), "spaces at an end or control characters"),
        (SecretSource(given="x" * 5000), "has 5000 characters; expected at most 4096"),
    ],
)
def test_a_secret_that_clients_cannot_send_is_refused(source, sentence):
    with pytest.raises(ClientError, match=sentence):
        source.read("shop")


def test_a_secret_is_not_in_the_repr():
    assert "hidden-one" not in repr(SecretSource(given="hidden-one"))
