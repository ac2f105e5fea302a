"""Recorded frames of Java servers, and a cluster of scripted servers in memory on a virtual clock."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from one_frame import split_frame
from scripted_cluster import cluster, peer, record_maker, simulate  # noqa: F401 - fixtures of this folder

from gantrymq.errors import PluginError
from gantrymq.remoting.command import Command, decode

FRAMES = json.loads((Path(__file__).parent / "data" / "frames.json").read_text())


@pytest.fixture
def golden() -> Callable[[str], Command]:
    """A recorded frame by its name in pack_frames.py, decoded."""
    return lambda name: decode(split_frame(base64.b64decode(FRAMES[name])))


class _Alone:
    """Assigns every queue to a member."""

    name = "AVG"

    def allocate(self, group, client_id, queues, client_ids):
        return list(queues)


def _offered(name):
    if name != _Alone.name:
        raise PluginError(f"no plugin offers {name}")
    return lambda settings: _Alone()


@pytest.fixture
def strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation strategy for consumers, used if no plugin offers one."""
    if find_spec("gantrymq_allocate") is None:
        loaded = SimpleNamespace(problems=(), allocation=_offered)
        monkeypatch.setattr("gantrymq.client.group.allocation.load_plugins", lambda **_: loaded)
