"""The recorded conversations of a client with RocketMQ's proxies, see tests/golden/README.md."""

import json
import lzma
from pathlib import Path
from typing import NamedTuple

from google.protobuf.json_format import ParseDict

from gantrymq_grpc.definitions import METHODS
from gantrymq_grpc.transport.status import StatusCode

_FOLDER = Path(__file__).resolve().parents[1] / "golden"
NOW_MS = 1_795_623_956_500  # about the time of the recording
TYPES = {"TalkN": "NORMAL", "TalkF": "FIFO", "TalkD": "DELAY", "TalkT": "TRANSACTION"}


class Line(NamedTuple):
    """One recorded message."""

    method: str
    direction: str  # request, response, error, end
    message: object  # of the method's class; None for an error or an end
    note: str
    client: str
    error: object = None  # `Error` of the direction error


class Error(NamedTuple):
    """The status of a call."""

    code: int
    text: str


def conversation(name="grpc_conversation", session=None):
    """Return the lines in time order; *session*: of a file with several sessions, only that one."""
    return [_line(row) for row in rows(name) if "rpc" in row and session in (None, row.get("session"))]


def rows(name):
    """Return all rows of a file, as they were recorded."""
    return [json.loads(text) for text in lzma.decompress((_FOLDER / f"{name}.jsonl.xz").read_bytes()).splitlines()]


def _line(row):
    method = METHODS[row["rpc"]]
    kind = {"request": method.request, "response": method.response}.get(row["dir"])
    message = None if kind is None or row.get("message") is None else ParseDict(row["message"], kind())
    error = None
    if row["dir"] == "error":
        error = Error(StatusCode[row["grpc_status"]].value, row["details"])
    return Line(row["rpc"], row["dir"], message, row.get("note", ""), row.get("client", ""), error)


def answered(method):
    """Return the requests of a method without a stream, each with its response and note."""
    lines = [line for line in conversation() if line.method == method]
    asked = [line for line in lines if line.direction == "request"]
    got = [line.message for line in lines if line.direction == "response"]
    return [(line.message, response, line.note) for line, response in zip(asked, got, strict=True)]


def delivered():
    """Return the messages that consumers received, and those of transaction checks."""
    found = []
    for line in conversation():
        if line.method == "ReceiveMessage" and line.direction == "response" and line.message.HasField("message"):
            found.append(line.message.message)
        elif line.method == "Telemetry" and line.message and line.direction == "response":
            command = line.message.recover_orphaned_transaction_command
            found.extend([command.message] if command.HasField("message") else [])
    return found
