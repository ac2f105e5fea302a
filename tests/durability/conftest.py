"""Fixtures of the durability tests. See README.md beside this file."""

import sys
from pathlib import Path

import pytest

# Makes `import durability_rig` work whatever import mode pytest runs in.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("gantrymq_storage_mmap", reason="needs gantrymq-storage-mmap")
pytest.importorskip("gantrymq_filter_tag", reason="needs gantrymq-filter-tag")
pytest.register_assert_rewrite("durability_rig")
