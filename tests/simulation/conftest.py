"""Makes the simulation's own modules importable."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Makes `import simulation_rig`, and the gRPC client of the tests of gRPC, work in any import mode of pytest.
for folder in (Path(__file__).parent, Path(__file__).parents[1] / "grpc"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

pytest.register_assert_rewrite("simulation_rig")

KINDS = ("gantrymq_schedule", "gantrymq_transaction", "gantrymq_pop")
PLUGINS = ("gantrymq_storage_mmap", "gantrymq_storage_memory", "gantrymq_filter_tag", *KINDS)
collect_ignore_glob = [] if all(map(find_spec, PLUGINS)) else ["test_*.py"]
