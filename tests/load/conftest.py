"""Makes the rig importable; skips the load tests if the store or the filter plugin is missing."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("load_rig")

STORE_AND_FILTER = find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag")
collect_ignore_glob = [] if STORE_AND_FILTER and Path("/proc/self/stat").exists() else ["test_*.py"]
