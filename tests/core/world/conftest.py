"""Fixtures of all kinds of worlds, for tests of their common behaviour."""

import asyncio
import importlib.util

import pytest

from gantrymq.world.real import RealFiles, real_world
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import SimulatedFiles, simulate

PATIENCE_S = 30.0  # time limit of hanging tests


def run_real(main, loop_factory=None):
    async def bounded():
        return await asyncio.wait_for(main(real_world()), PATIENCE_S)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(bounded())


def run_uvloop(main):
    import uvloop

    return run_real(main, uvloop.new_event_loop)


without_uvloop = pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")


@pytest.fixture(
    params=[
        pytest.param(run_real, id="asyncio"),
        pytest.param(run_uvloop, id="uvloop", marks=without_uvloop),
        pytest.param(lambda main: simulate(7, main), id="simulated"),
    ]
)
def run(request):
    """A function that runs ``main(world)`` to its end and returns its result."""
    return request.param


@pytest.fixture(params=["real", "simulated", "recording"])
def place(request, tmp_path):
    """Return `Files` and an existing folder."""
    if request.param == "simulated":
        files = SimulatedFiles(lambda: 1_700_000_000_000)
        files.make_dirs(tmp_path)
        return files, tmp_path
    return (RealFiles() if request.param == "real" else RecordingFiles(RealFiles())), tmp_path
