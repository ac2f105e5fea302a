"""Every line of the pages that begins with ``gantrymq``: it runs against a broker, or at least its options exist.

Placeholders are replaced: addresses of servers by those of a broker of this process, folders of stores by the store of
a stopped broker. A line fails if it is wrong usage (exit code 2) or raises; names such as UNIQUE-ID need not exist.
"""

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq_testing.running_broker import RunningBroker

NEEDED = {*TO_INSTALL.values(), "gantrymq-storage-mmap"}
pytestmark = pytest.mark.skipif(
    any(find_spec(name.replace("-", "_")) is None for name in NEEDED), reason="needs every plugin with commands"
)

ROOT = Path(__file__).parents[2]
PAGES = [page for place in ("*.md", "docs/**/*.md", "*/*/README.md", "core/README.md") for page in ROOT.glob(place)]
FENCE = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
STORES = re.compile(r"^/var/lib/(rocketmq/store|gantrymq|gantrymq/store)$|^/mnt/store$")
# Commands that serve until they are stopped, or need Spark:
SERVING = ("start", "broker", "nameserver", "quickstart", "console", "message tail", "bench", "pipeline")


def documented():
    """Return the commands of all pages, without comments, without repetitions."""
    found = set()
    for page in PAGES:
        for block in FENCE.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                command = re.sub(r" > [\w.]+$", "", line.strip().removeprefix("$ ").rpartition("&& ")[2])
                if re.match(r"gantrymq [a-z-]", command):
                    # Two spaces or more begin a comment, with or without "#".
                    found.add(re.split(r"  +|\s# ", command)[0])
    return sorted(found)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A running broker, and the store of a stopped one."""
    folder = tmp_path_factory.mktemp("brokers")
    stopped = RunningBroker(folder / "stopped", {"mappedFileSizeCommitLog": "1048576"})
    stopped.start()
    stopped.create_topic("Orders", 2)
    stopped.stop()
    server = RunningBroker(folder / "running", {"store": "memory"})
    server.start()
    yield server, folder / "stopped"
    server.stop()


@pytest.mark.parametrize("line", documented())
def test_a_documented_command_is_right(line, places, tmp_path, monkeypatch):
    server, store = places
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("gantrymq").mkdir()
    Path("gantrymq/contexts.json").write_text(json.dumps({"prod": {"namesrv": server.namesrv}}))
    for name in ("namesrv.conf", "broker.conf"):
        Path(name).touch()
    words = [replaced(word, server.namesrv, store) for word in shlex.split(line)[1:]]
    if " ".join(words).startswith(SERVING):
        parse(main, words)
        return
    done = CliRunner().invoke(main, words)
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output


def replaced(word, namesrv, store):
    if STORES.match(word):
        return str(store)
    return namesrv if re.fullmatch(r"(127|10)(\.\d+){3}:9876", word) else word


def parse(command, words, parent=None):
    """Parse *words* as the arguments of *command*, those of its subcommands included, and run nothing."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        _, found, left = command.resolve_command(context, rest)
        parse(found, left, context)
