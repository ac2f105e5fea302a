"""More connections than a process has descriptors: those that are connected are served, the others are turned away."""

import json
import subprocess
from contextlib import ExitStack

from faulty_broker import PROGRAM, START, Peer

LIMIT = 256
CROWD = 400


def test_a_crowd_of_idle_connections_takes_none_that_the_store_needs(tmp_path):
    words = [*START, "--store", tmp_path / "store", "--log-level", "warning", "--output", "json"]
    small = ["--set", "mappedFileSizeCommitLog=4194304"]
    command = ["bash", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@"', PROGRAM, *words, *small]
    with (
        ExitStack() as opened,
        subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
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
        for number in range(200):  # in sixteen queues, each of which wants a file
            assert honest.send("T", f"{number}".encode(), e=number % 16).code == 0
            assert honest.create_topic(f"T{number % 20}").code == 0
        assert honest.pull("T").code == 0
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"may have {LIMIT} files and sockets open, so 160 connections are the most" in errors
    assert "refused: 160 connections are open, which is the limit" in errors
    assert "Too many open files" not in errors
