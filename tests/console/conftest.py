"""Fixtures: a browser without scripts at a console for a broker in this process."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

# Without the plugin there is nothing to collect; with it alone, tests that need no store run.
collect_ignore_glob = [] if find_spec("gantrymq_console") else ["test_*.py"]
NEED_STORE = {"gantrymq_broker", "gantrymq_broker_factory", "gantrymq_simulation", "visitor"}


@pytest.fixture(autouse=True)
def _needs_a_store(request):
    if NEED_STORE & set(request.fixturenames) and find_spec("gantrymq_storage_memory") is None:
        pytest.skip("needs gantrymq-storage-memory")


@pytest.fixture(autouse=True)
def _closed_histories():
    """Close the files of histories whose process was killed in a test; Python 3.13 warns of open ones."""
    yield
    sampled = sys.modules.get("sampled_history")
    if sampled is not None:
        sampled.close_files()


@pytest.fixture
def unchanged(monkeypatch):
    """A page that is refreshed within the test is the same: its view does not get too old, and no minute begins."""
    from gantrymq_console.web import console

    monkeypatch.setattr(console, "AGE_S", 600.0)
    monkeypatch.setattr(console, "MINUTE_MS", 2**62)


@pytest.fixture
def visitor(gantrymq_broker):
    from console_visitor import Visitor

    with Visitor(gantrymq_broker) as found:
        yield found
