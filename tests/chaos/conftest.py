"""Makes the rigs importable: this folder's own, and those of other tests that it uses."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

for folder in (HERE, *(HERE.parent / name for name in ("durability", "load", "interop", "election"))):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

pytest.register_assert_rewrite("chaos_rig", "durability_rig", "load_rig")

HAS_STORE = find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag")
collect_ignore_glob = [] if HAS_STORE and sys.platform == "linux" else ["test_*.py"]
