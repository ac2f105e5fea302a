"""Fixtures of the durability tests. See README.md beside this file."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Makes `import durability_rig` work whatever import mode pytest runs in.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("durability_rig")

# Without the store there is nothing to ask.
collect_ignore_glob = [] if find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag") else ["test_*.py"]
