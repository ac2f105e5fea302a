"""Code shared by the benchmarks: the raw load of `tests/load/load_rig`, a fast event loop, the words of a verdict."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "load"))

from load_rig import (
    FIRST_OPAQUE,
    Answer,
    BrokerProcess,
    Connection,
    Pump,
    Request,
    commit_request,
    connect,
    cpu_s,
    create_topic_request,
    heartbeat_request,
    members_request,
    memory_bytes,
    percentile,
    pull_request,
    raise_descriptor_limit,
    send_request,
)

__all__ = [
    "FIRST_OPAQUE",
    "Answer",
    "BrokerProcess",
    "Connection",
    "Pump",
    "Request",
    "commit_request",
    "connect",
    "cpu_s",
    "create_topic_request",
    "heartbeat_request",
    "members_request",
    "memory_bytes",
    "new_loop",
    "percentile",
    "pull_request",
    "raise_descriptor_limit",
    "send_request",
    "verdict",
]


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop if installed: the load should cost less than the broker that it measures."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def verdict(value: float, goal: float) -> str:
    """The verdict for a goal that is a lower limit."""
    return "good" if value < goal else "ABOVE THE GOAL"
