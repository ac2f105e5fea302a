"""Golden stores in tests with Spark: their names, and rows of Arrow tables in the form that records.jsonl has."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from typing import Any

import pytest

SAME = [
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "storeSize",
    "sysFlag",
    "flag",
    "bodyCRC",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "msgId",
]


def java_host(text: str) -> str:
    """IPv6 as Java prints it: all eight groups and no brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("["):
        host = ":".join(f"{int(group, 16):x}" for group in ipaddress.ip_address(host[1:-1]).exploded.split(":"))
    return f"{host}:{port}"


def milliseconds(time: Any) -> int:
    """A point in time as Java has it."""
    return round(time.timestamp() * 1000)


def described(row: dict[str, Any], file_bytes: int) -> dict[str, Any]:
    """A row in the form of records.jsonl, without members that only describe the file (magic)."""
    body = row["body"]
    start = row["commitLogOffset"] // file_bytes * file_bytes
    line = {
        **{name: row[name] for name in SAME},
        "kind": "record",
        "bornTimestamp": milliseconds(row["bornTimestamp"]),
        "bornHost": java_host(row["bornHost"]),
        "storeTimestamp": milliseconds(row["storeTimestamp"]),
        "storeHost": java_host(row["storeHost"]),
        "transactionId": None,
        "properties": dict(row["properties"]),
        "bodyLength": len(body),
        "bodySha256": hashlib.sha256(body).hexdigest(),
        "file": f"{start:020}",
        "position": row["commitLogOffset"] - start,
    }
    if len(body) <= 1024:
        line["body"] = base64.b64encode(body).decode()
    return line


def recorded(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The members of records.jsonl that rows have."""
    found = [{name: value for name, value in line.items() if name != "magic"} for line in records]
    return [line for line in found if line["kind"] == "record"]


def golden_names(names, usual):
    """Parameters of a test: the names of golden stores, of which those that are not in *usual* are long.

    Tests without Spark read every golden store in each run.
    """
    return [pytest.param(name, marks=() if name in usual else pytest.mark.long) for name in names]
