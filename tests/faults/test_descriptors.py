"""A real `ulimit -n`: existing connections are served, new ones are refused, and every queue gets its file.

docs/operations/resource-limits.md has the table.
"""

import json
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from faulty_broker import DEADLINE_S, PROGRAM, START, Peer

LIMIT = 256
CROWD = 400
QUEUES = 300  # more than the descriptor limit


def limited(store, *more):
    """`gantrymq start` on *store* with at most LIMIT open files and sockets; *more* arguments."""
    words = [*START, "--store", store, "--log-level", "warning", "--output", "json"]
    small = ["--set", "mappedFileSizeCommitLog=4194304", "--set", "mappedFileSizeConsumeQueue=2000"]
    command = ["bash", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@"', PROGRAM, *words, *small, *more]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_more_queues_than_descriptors_are_all_written_and_read(tmp_path):
    for life in range(2):
        with limited(tmp_path / "store") as process, ExitStack() as opened:
            opened.callback(process.kill)
            host, _, port = json.loads(process.stdout.readline())["broker"].rpartition(":")
            peer = Peer((host, int(port)))
            opened.callback(peer.socket.close)
            assert peer.create_topic("T", readQueueNums=QUEUES, writeQueueNums=QUEUES).code == 0
            for turn in range(2):
                for queue in range(QUEUES):
                    assert peer.send("T", f"{life} {turn} {queue}".encode(), e=queue).code == 0
            for queue in range(QUEUES):
                pulled = peer.pull("T", queueId=queue)
                assert pulled.code == 0
                for before in range(life + 1):
                    for turn in range(2):
                        assert f"{before} {turn} {queue}".encode() in pulled.payload
            process.terminate()
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Too many open files" not in errors


def test_a_crowd_of_idle_connections_takes_none_that_the_store_needs(tmp_path):
    with limited(tmp_path / "store") as process, ExitStack() as opened:
        opened.callback(process.kill)
        ready = json.loads(process.stdout.readline())
        host, _, port = ready["broker"].rpartition(":")
        honest = Peer((host, int(port)))
        opened.callback(honest.socket.close)
        assert honest.create_topic("T", readQueueNums=16, writeQueueNums=16).code == 0
        crowd = [Peer((host, int(port))) for _ in range(CROWD)]
        for peer in crowd:
            opened.callback(peer.socket.close)
        assert crowd[-1].is_closed()
        for number in range(200):  # in sixteen queues, each of which needs a file
            assert honest.send("T", f"{number}".encode(), e=number % 16).code == 0
            assert honest.create_topic(f"T{number % 20}").code == 0
        assert honest.pull("T").code == 0
        for peer in crowd:
            peer.socket.close()
        with ExitStack() as later:  # once they have closed, others can connect
            newcomer = arrive((host, int(port)), later)
            assert newcomer.send("T", b"newcomer").code == 0
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"may have {LIMIT} files and sockets open, so the limit is 160 connections" in errors
    assert "refused: 160 connections are open, which is the limit" in errors
    assert "Too many open files" not in errors


def test_unfinished_requests_to_the_console_take_none_that_the_broker_needs(tmp_path):
    pytest.importorskip("gantrymq_console")
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = free.getsockname()
    listen = f"consoleListen=127.0.0.1:{at[1]}"
    with limited(tmp_path / "store", "--set", listen) as process, ExitStack() as opened:
        opened.callback(process.kill)
        ready = json.loads(process.stdout.readline())
        host, _, port = ready["broker"].rpartition(":")
        for number in range(CROWD):  # from 50 addresses
            source = (f"127.0.1.{number % 50}", 0)
            visitor = opened.enter_context(socket.create_connection(at, 20, source))
            with suppress(OSError):  # it may have been refused already
                visitor.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        crowd = [Peer((host, int(port))) for _ in range(120)]
        for peer in crowd:
            opened.callback(peer.socket.close)
        for number in range(40):
            assert crowd[number].create_topic(f"T{number}").code == 0
            assert crowd[-number].send(f"T{number}", b"stored").code == 0
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "console: a connection from 127.0.1." in errors
    assert "Too many open files" not in errors


def test_connections_that_browsers_only_keep_make_room_at_the_console(tmp_path):
    pytest.importorskip("gantrymq_console")
    with limited(tmp_path / "store", "--set", "consoleListen=127.0.0.1:0") as process, ExitStack() as opened:
        opened.callback(process.kill)
        ready = json.loads(process.stdout.readline())
        host, _, port = ready["broker"].rpartition(":")
        honest = Peer((host, int(port)))
        opened.callback(honest.socket.close)
        assert honest.create_topic("T").code == 0
        at = urlsplit(ready["pages"]["console"])
        for number in range(100):  # the console may have 16
            visitor = socket.create_connection((at.hostname, at.port), 20, (f"127.0.1.{number}", 0))
            opened.enter_context(visitor)
            visitor.sendall(b"GET /healthz HTTP/1.1\r\nHost: probe\r\n\r\n")
            assert b'{"healthy":true}' in visitor.recv(4096)
            assert honest.send("T", b"stored").code == 0
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "refused" not in errors and "Too many open files" not in errors


def arrive(address, stack):
    """A connection that is served; a refused one is tried again."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        peer = Peer(address)
        stack.callback(peer.socket.close)
        try:
            assert peer.pull("T").code == 0
            return peer
        except (AssertionError, OSError):
            assert time.monotonic() < deadline
