"""Fixtures of the golden tests. See README.md in this folder."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Makes `import golden_stores` work in any import mode of pytest.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from golden_stores import Scenario, unpack


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every golden store, unpacked once; read-only."""
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    return folder


@pytest.fixture(scope="session")
def golden(golden_folder: Path) -> Callable[[str], Scenario]:
    """Scenarios by name; read-only."""
    found: dict[str, Scenario] = {}

    def get(name: str) -> Scenario:
        if name not in found:
            found[name] = Scenario(name, golden_folder / name)
        return found[name]

    return get


@pytest.fixture
def golden_copy(golden_folder: Path, tmp_path: Path) -> Callable[[str], Scenario]:
    """Scenarios by name, each call a new copy that may be written."""
    numbers = iter(range(1000))

    def get(name: str) -> Scenario:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(golden_folder / name, folder)
        return Scenario(name, folder)

    return get
