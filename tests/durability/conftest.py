"""Fixtures of the durability tests. See README.md in this folder."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# Makes `import durability_rig` work whatever import mode pytest runs in, and `crash_rig`, whose clients and judgement
# `test_kill_kinds.py` uses.
for folder in (HERE, HERE.parent / "crash", HERE.parent / "golden"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

pytest.register_assert_rewrite("durability_rig", "crash_rig")

# Without the store there is nothing to test.
collect_ignore_glob = [] if find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag") else ["test_*.py"]
