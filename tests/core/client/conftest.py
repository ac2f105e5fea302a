"""Recorded frames of Java servers, and a cluster of scripted servers in memory on a virtual clock."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from scripted_cluster import Cluster, Peer, record

from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import split_frame
from gantrymq.world import World
from gantrymq_testing import simulated

FRAMES = json.loads((Path(__file__).parent / "data" / "frames.json").read_text())
LIMIT_S = 3600.0


@pytest.fixture
def golden() -> Callable[[str], Command]:
    """A recorded frame by its name in pack_frames.py, decoded."""
    return lambda name: decode(split_frame(base64.b64decode(FRAMES[name])))


@pytest.fixture
def simulate() -> Callable[[Callable[[World], Coroutine[Any, Any, Any]]], Any]:
    """Run a coroutine function of a simulated world; no task may be left when it ends."""

    async def checked(work: Callable[[World], Coroutine[Any, Any, Any]], world: World) -> Any:
        result = await work(world)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return lambda work: simulated.simulate(7, lambda world: checked(work, world), limit_s=LIMIT_S)


@pytest.fixture
def cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def peer() -> type[Peer]:
    return Peer


@pytest.fixture(name="record")
def record_maker() -> Callable[..., bytes]:
    """One record of topic T, with any field of `encode_record` set otherwise."""
    return record
