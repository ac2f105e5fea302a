"""Commands given bad topics, messages and stores of a running broker, and a server that limits access."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from faulty_broker import DEADLINE_S, PROGRAM, Peer

from gantrymq.cli import main, server_settings
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq.errors import install_command
from gantrymq.plugins import discover

SPOILT = b"these bytes are no stream"
ZLIB = 0x301


class Server:
    """`gantrymq start` and commands that query it."""

    def __init__(self, ready: dict[str, str]) -> None:
        self.namesrv, self.broker, self.store = ready["namesrv"], ready["broker"], ready["store"]

    def command(self, *words: object) -> tuple[str, str, str]:
        """Result of a command: its exit code, stdout, stderr without the name of the program."""
        done = subprocess.run(
            [PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        return f"exit {done.returncode}", done.stdout, done.stderr.removeprefix("gantrymq: ")

    def messages(self, *words: object) -> list[dict[str, object]]:
        """Output of a `gantrymq message` command."""
        code, out, errors = self.command("message", *words, "-n", self.namesrv, "--output", "json")
        assert code == "exit 0", errors
        return [json.loads(line) for line in out.splitlines()]

    @contextmanager
    def peer(self) -> Iterator[Peer]:
        """A client that sends invalid data."""
        host, _, port = self.broker.rpartition(":")
        peer = Peer((host, int(port)))
        try:
            yield peer
        finally:
            peer.socket.close()


@pytest.fixture
def server(program, tmp_path) -> Iterator[Server]:
    process = program.begin("--store", tmp_path / "store", "--namesrv-port", 0, "--broker-port", 0)
    yield Server(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, "Traceback" in errors) == (0, False)


def test_bi130_a_topic_with_fewer_read_queues(server, row):
    create = ("topic", "create", "-t", "Few", "-n", server.namesrv)
    assert server.command(*create, "-r", 4, "-w", 4)[0] == "exit 0"
    for queue in (2, 3, 3):
        server.messages("send", "-t", "Few", "--queue", queue, "--body", "x")
    code, _, said = server.command(*create, "-r", 2, "-w", 2)
    row.check(said, code, topic="Few", present=4, address=server.broker, wanted=2, first=2, last=3, count=3)
    assert len(server.messages("pull", "-t", "Few")) == 3


def test_bi131_a_body_that_cannot_be_decompressed(server, row):
    with server.peer() as peer:
        assert peer.create_topic("Odd").code == 0
        for body, flag in ((b"one", 0), (SPOILT, ZLIB), (b"three", 0)):
            sent = peer.send("Odd", body, f"UNIQ_KEY\x01{body[:3].hex():0>32}\x02KEYS\x01k\x02", f=flag)
            assert sent.code == 0
    pull = ("-t", "Odd", "--max", 3)
    for words in (("pull", *pull), ("tail", *pull, "--from-beginning")):
        before, spoilt, behind = server.messages(*words)
        assert (before["body"], behind["body"]) == ("one", "three")
        assert "body" not in spoilt
        row.check(spoilt["body_problem"], 0, size=len(SPOILT), why=why(spoilt))
    unique = f"{SPOILT[:3].hex():0>32}"
    for words in (
        ("query", "-t", "Odd", "--key", "k"),
        ("view", spoilt["offset_id"]),
        ("query", "-t", "Odd", "--unique-key", unique),
    ):
        assert [each["body_problem"] for each in server.messages(*words) if "body_problem" in each] == [
            spoilt["body_problem"]
        ]
    code, out, _ = server.command("store", "extract", server.store, "-t", "Odd", "--output", "json")
    assert code == "exit 0"
    assert [json.loads(line).get("body_problem") for line in out.splitlines()] == [None, spoilt["body_problem"], None]


def why(message):
    """zlib's message, which depends on its version"""
    return message["body_problem"].partition("is not a zlib stream: ")[2]


def test_bi132_a_check_of_a_store_that_is_open(server, row):
    assert server.command("topic", "create", "-t", "T", "-n", server.namesrv)[0] == "exit 0"
    server.messages("send", "-t", "T", "--body", "x", "--count", 5)
    code, said, _ = server.command("store", "check", server.store)
    row.check(said, code, root=server.store)


def test_bi133_a_repair_of_a_store_that_is_open(server, row):
    for command in ("repair", "rebuild-queues", "rebuild-index"):
        code, out, said = server.command("store", command, server.store)
        row.check(said, code, root=server.store)
        assert out == ""


def test_bi134_a_server_that_others_reach(program, row, tmp_path):
    words = ("--store", tmp_path / "store", "--namesrv-port", 0, "--broker-port", 0, "--set", "bindAddress=0.0.0.0")
    process = program.begin(*words)
    assert json.loads(process.stdout.readline())["ready"] is True
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=DEADLINE_S)
    (warning,) = [line for line in errors.splitlines() if "access control" in line]
    row.check(warning, "starts", host="0.0.0.0")


def test_bi136_a_command_of_a_plugin_that_is_not_installed(row, monkeypatch):
    monkeypatch.setattr("gantrymq.plugins.load.find_candidates", lambda distribution: ([], []))
    for command, distribution in TO_INSTALL.items():
        done = CliRunner().invoke(main, [*command.split(), "--help"])
        said = done.stderr.removeprefix("gantrymq: ")
        row.check(said, f"exit {done.exit_code}", command=command, pip=install_command(distribution))
        assert done.stdout == ""


@pytest.mark.parametrize("command", ["start", "nameserver", "quickstart", "config --server nameserver"])
def test_bi137_a_name_server_where_no_plugin_offers_one(command, row, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    candidates = discover.find_candidates
    monkeypatch.setattr("gantrymq.plugins.load.find_candidates", lambda only="": without_name_server(candidates(only)))
    done = CliRunner().invoke(main, command.split())
    said = done.stderr.removeprefix("gantrymq: ")
    row.check(said, f"exit {done.exit_code}", pip=install_command(server_settings.NAME_SERVER_TO_INSTALL))
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def without_name_server(found):
    """The installed plugins except the one that provides the name server."""
    candidates, problems = found
    return [each for each in candidates if each.distribution != server_settings.NAME_SERVER_TO_INSTALL], problems
