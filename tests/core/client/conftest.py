"""Recorded frames of Java servers, and a cluster of scripted servers in memory on a virtual clock."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from one_frame import split_frame
from scripted_cluster import cluster, peer, record_maker, simulate  # noqa: F401 - fixtures of this folder

from gantrymq.remoting.command import Command, decode

FRAMES = json.loads((Path(__file__).parent / "data" / "frames.json").read_text())


@pytest.fixture
def golden() -> Callable[[str], Command]:
    """A recorded frame by its name in pack_frames.py, decoded."""
    return lambda name: decode(split_frame(base64.b64decode(FRAMES[name])))
