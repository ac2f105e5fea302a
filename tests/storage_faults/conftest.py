"""Both disks under the faults: the operating system's and the simulated one."""

from pathlib import Path

import pytest

from gantrymq.world.real import RealFiles
from gantrymq_testing.simulated import SimulatedFiles


@pytest.fixture(params=["real", "simulated"])
def disk(request, tmp_path):
    """Files, and a folder on them."""
    if request.param == "real":
        return RealFiles(), tmp_path
    files = SimulatedFiles(lambda: 0)
    files.make_dirs(Path("/disk"))
    return files, Path("/disk")
