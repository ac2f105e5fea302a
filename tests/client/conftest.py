"""The client with a broker in a separate process; skipped without the store and filter plugins."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("client_rig")

STORE_AND_FILTER = find_spec("gantrymq_storage_mmap") and find_spec("gantrymq_filter_tag")
collect_ignore_glob = [] if STORE_AND_FILTER else ["test_*.py"]


@pytest.fixture
def servers(tmp_path):
    from client_rig import Servers

    with Servers(tmp_path) as started:
        yield started
