"""Output of commands."""

import json
import os
import re

import click
import pytest
from click.testing import CliRunner

from gantrymq.commands.output import namesrv_option, print_json, print_table, say, warn


def test_json_is_one_line_on_stdout(capsys):
    print_json({"topic": "Grüße", "queues": [1, 2]})
    out, errors = capsys.readouterr()
    assert out.count("\n") == 1
    assert json.loads(out) == {"topic": "Grüße", "queues": [1, 2]}
    assert errors == ""


def test_sentences_and_warnings_go_to_stderr(capsys):
    say("Hello.")
    warn("the disk is almost full")
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors == "Hello.\nwarning: the disk is almost full\n"


@pytest.mark.parametrize("length", [10, 300])
def test_a_table_in_a_pipe_folds_and_cuts_nothing(capsys, length):
    print_table(("key", "value"), [("short", "x" * length), ("other", 5)])
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "short" in line)
    assert row.split() == ["short", "x" * length]
    assert max(map(len, lines)) < length + 20


def test_a_long_table_looks_as_a_short_one(capsys, monkeypatch):
    rows = [(f"Topic-{number}", number, "" if number % 2 else "some words [and] {braces}") for number in range(600)]
    print_table(("Topic", "Queue", "Remark"), rows)
    long = capsys.readouterr().out
    monkeypatch.setattr("gantrymq.commands.output.LONG_ROWS", 1000)
    print_table(("Topic", "Queue", "Remark"), rows)
    assert long == capsys.readouterr().out


def test_a_long_table_of_wide_characters_is_aligned(capsys):
    print_table(("Key", "Value"), [("\u4e2d\u6587", "a"), ("long", "b")] * 300)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].index("a") == lines[4].index("b") - 2  # each of the two takes two columns


@pytest.fixture
def terminal(monkeypatch, capsys):
    """Return the lines of a table on a terminal with *width* columns."""

    def shown(width, columns, *rows):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        print_table(columns, rows)
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()

    return shown


ADDRESSES = "0: 192.0.2.101:10911  1: 192.0.2.102:10911"


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_a_terminal_of_any_width_folds_no_address_and_no_id(terminal, width):
    rows = [(f"cluster-{number}" * 3, ADDRESSES, "7F00000118E54E0E2F2A688CF40D0000" * 2) for number in range(3)]
    lines = terminal(width, ("Cluster", "Addresses", "Id"), *rows)
    for row in rows:
        assert any(all(cell in line for cell in row) for line in lines), "\n".join(lines)


def test_words_of_the_last_column_are_folded_into_the_terminal(terminal):
    words = [f"command number-{number}," for number in range(40)]
    lines = terminal(90, ("plugin", "registers"), ("admin", " ".join(words)), ("other", "nothing"))
    assert max(map(len, lines)) <= 90
    assert " ".join(words) in " ".join(" ".join(lines).split())


def test_a_table_without_rows_has_its_head(terminal):
    assert any("plugin" in line and "registers" in line for line in terminal(80, ("plugin", "registers")))


def test_a_table_takes_square_brackets_as_they_are(capsys):
    print_table(("value",), [("[red]not markup[/red]",)])
    assert "[red]not markup[/red]" in capsys.readouterr().out


def test_what_a_command_says_of_tls_is_forgotten_after_it(monkeypatch):
    monkeypatch.setenv("tls.enable", "false")
    monkeypatch.delenv("tls.config.file", raising=False)
    seen = {}
    keys = ("tls.enable", "tls.config.file")

    @click.command()
    @namesrv_option
    def command(namesrv):
        seen.update({key: os.environ.get(key) for key in keys})

    result = CliRunner().invoke(command, ["--tls", "--tls-config", "some.properties"])
    assert result.exit_code == 0, result.output
    assert seen == {"tls.enable": "true", "tls.config.file": "some.properties"}
    assert [os.environ.get(key) for key in keys] == ["false", None]
