"""Fixtures of the crash tests. See README.md in this folder."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NEEDED = ("gantrymq_storage_faults", "gantrymq_storage_mmap")

# Makes `import crash_rig` and `import golden_stores` work in every import mode of pytest.
for folder in (HERE, HERE.parent / "golden"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

pytest.register_assert_rewrite("crash_rig")

# Without the store and the faults there is nothing to test.
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]

if not collect_ignore_glob:
    from crash_rig.starts import Starts

    @pytest.fixture(scope="session")
    def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
        """Stores to begin with: an empty one, and what Java brokers left."""
        return Starts(tmp_path_factory.mktemp("golden"))
