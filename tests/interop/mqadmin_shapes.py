"""Normalization of admin command output: without times, ids, addresses and rates, two runs must be equal."""

import json
import lzma
import re
from collections import Counter
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "mqadmin.json.xz"

NAMESRV, BROKER = "127.0.0.2:29876", "127.0.0.2:20911"  # of the golden run
OFFSET_ID, UNIQUE_KEY = "7F000002000051AF0000000000000000", "7F00000118E54E0E2F2A688CF40D0000"  # its first message

_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?"), "TIME"),
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"(?<=Message Body Path: ).*"), "PATH"),
    (re.compile(r"\b127\.0\.0\.\d(:\d+)?\b"), "ADDRESS"),
    (re.compile(r"\b\d+\.\d+(E-?\d+)?\b( +\d+\.\d+\b)*"), "RATE"),  # tools print one to three of a kind
    (re.compile(r"\b\d{13}\b"), "MILLIS"),
    (re.compile(r"\d+(?= (days|hours|minutes|seconds)\b)"), "N"),
    (re.compile(r"(?<=remainHowManyDataToFlush : )\d+"), "N"),
    (re.compile(r"(?<=MessageEntireTimeMax : )\d+"), "MS"),
    (re.compile(r"(?<=[]]:)\d+(?= |$)"), "N"),  # of putMessageDistributeTime
    (re.compile(r"(?<=true )\d+$"), "MS"),  # of checkMsgSendRT
    (re.compile(r"\d+ RATE \d+ \d+$"), "N RATE N N"),  # of statsAll: the lag, and counts of the last minute
)
_STACK = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)$")


def golden() -> dict[str, Any]:
    """Return the commands with Java's output, and the messages that were in the topic."""
    loaded: dict[str, Any] = json.loads(lzma.decompress(DATA.read_bytes()))
    return loaded


def shape(output: str) -> Counter[str]:
    """Return the normalized lines of an output, sorted: Java prints many hash tables, in any order.

    Stack traces keep their messages. Columns are as wide as their addresses, so a run of blanks counts as one.
    """
    lines = []
    for line in output.splitlines():
        if _STACK.match(line):
            continue
        line = " ".join(line.split())
        for pattern, name in _VARYING:
            line = pattern.sub(name, line)
        if line:
            lines.append(line)
    return Counter(lines)


def difference(java: str, ours: str) -> list[str]:
    """Return the lines that only Java's output has, prefixed with ``-``, and those that only ours has, with ``+``."""
    theirs, own = shape(java), shape(ours)
    gone = [f"- {line}" for line in sorted((theirs - own).elements())]
    return [*gone, *(f"+ {line}" for line in sorted((own - theirs).elements()))]
