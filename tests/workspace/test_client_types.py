"""Type checkers know arguments and results of the client for threads, whose methods are made from the async ones."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

PROGRAM = """
from gantrymq.client.sync import Client, Message

with Client() as client:
    reveal_type(client.consumer("billing", {"Orders": "*"}, orderly=True))
    reveal_type(client.producer("shop", retries=5).send(Message("Orders", b"x")))
    reveal_type(client.reader("Orders").group)
    reveal_type(client.lite_pull("billing").poll(timeout_s=1.0))
    reveal_type(client.pop_consumer("billing", "Orders").trace)
    reveal_type(client.admin.groups("127.0.0.1:10911"))
    for message in client.consumer("billing", "Orders"):
        reveal_type(message)
    for queue in client.reader().queues("Orders"):
        reveal_type(client.reader().read(queue, 0, follow=True))
    client.consumer("billing", "Orders", no_such_option=1)
    client.consumer("billing", "Orders", orderly="x")
    client.consumer("billing")
    client.wait_ready(timeout_s="x")
"""
REVEALED = [
    "Consumer",
    "SendResult",
    "str",
    "tuple[ReceivedMessage, ...]",
    "MessageTrace | None",
    "dict[str, GroupConfig]",
    "ReceivedMessage",
    "MessageStream[ReceivedMessage]",
]
ERRORS = ["call-arg", "arg-type", "call-arg", "arg-type"]


def test_results_and_wrong_arguments_are_known(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path / 'cache'}",
        "program.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    revealed = [
        re.sub(r"\b\w+(\.\w+)*\.(?=\w)", "", each) for each in re.findall(r'Revealed type is "(.*)"', done.stdout)
    ]
    assert revealed == REVEALED, done.stdout
    assert re.findall(r"error: .*\[([\w-]+)\]", done.stdout) == ERRORS, done.stdout
