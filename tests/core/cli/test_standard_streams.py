"""Standard streams of commands that are closed, full, or have an encoding without some characters."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import subprocess
import sys
import click
from gantrymq.cli import MainGroup, main
from gantrymq.commands.output import output_option, print_json, print_table, say
from gantrymq.commands.run import run

async def work():
    return os.open(os.devnull, os.O_RDONLY)

@click.command()
@click.argument("what")
@output_option
def command(what, output):
    if what == "work":
        print("descriptor", run(work()) > 2, sys.stdin.read(), file=sys.stderr)
        click.echo("stored")
        say("done")
        sys.stdout.flush()
        sys.stderr.flush()
    elif what == "child":
        child = "import os; print(all(map(os.fstat, range(3))))"
        subprocess.run([sys.executable, "-c", child], stdout=open(os.environ["ANSWER"], "w"), check=True)
    elif what == "table":
        print_table(("a", "b"), [("one", "two")] * 20_000)  # more than a pipe buffers
    elif what == "json":
        print_json({"body": "caf\\u00e9 \\U0001f600"})
    else:
        print_table(("a", "b"), [("one", "caf\\u00e9 \\U0001f600")])
        click.echo("\\udcff")

MainGroup.get_command = lambda self, ctx, name: command
main()
"""
needs_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def run_in_shell(what, redirection, **environ):
    shell = f'"$0" -c "$1" command {what} {redirection}'
    return subprocess.run(
        ["sh", "-c", shell, sys.executable, PROGRAM],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_processes_that_a_command_starts_have_all_streams(tmp_path, closed):
    done = run_in_shell("child", closed, ANSWER=str(tmp_path / "answer"))
    assert done.returncode == 0, done
    assert (tmp_path / "answer").read_text() == "True\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_with_closed_streams(closed):
    done = run_in_shell("work", closed)
    assert done.returncode == 0, done
    if "2>" not in closed:
        assert b"descriptor True" in done.stderr
    assert done.stdout == (b"" if " >" in f" {closed}" else b"stored\n")


@needs_full_device
@pytest.mark.parametrize("what", ["work", "table", "json"])
def test_a_full_disk_under_stdout_is_one_sentence(what):
    done = run_in_shell(what, "</dev/null >/dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == "gantrymq: stdout cannot be written: No space left on device"
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_reader_that_leaves_ends_a_command_silently():
    done = run_in_shell("table", "| head -n 1")
    assert done.stderr == b""


@pytest.mark.parametrize("encoding", ["gbk", "euc_jp", "latin-1", "cp1252", "koi8-r", "utf-8"])
def test_characters_that_the_encoding_lacks_are_escaped(encoding):
    done = run_in_shell("json", "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode(encoding)) == {"body": "caf\u00e9 \U0001f600"}
    done = run_in_shell("text", "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert ("\U0001f600" if encoding == "utf-8" else "\\ud83d\\ude00") in text
    assert text.splitlines()[-1] == "\\udcff"


def test_a_handler_of_the_environment_is_kept():
    done = run_in_shell("text", "", PYTHONIOENCODING="latin-1:replace")
    assert "caf\u00e9 ?".encode("latin-1") in done.stdout


def test_a_long_table_has_the_characters_of_its_encoding():
    done = run_in_shell("table", "", PYTHONIOENCODING="latin-1")
    assert done.stdout.splitlines()[2].strip(b" -") == b""


CLEARED = """
from gantrymq.cli import standard_streams
with standard_streams.prepared_streams():
    print("written")
for name in list(vars(standard_streams)):  # as the interpreter does at its end, before it flushes the streams
    setattr(standard_streams, name, None)
"""


def test_the_last_flush_of_the_interpreter_needs_no_globals():
    ended = subprocess.run([sys.executable, "-c", CLEARED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "written\n", "")
