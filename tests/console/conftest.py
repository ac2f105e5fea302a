"""Fixtures: a browser without scripts at a console for a broker in this process."""

from __future__ import annotations

import pytest

pytest.importorskip("gantrymq_console")
pytest.importorskip("gantrymq_storage_memory")
from console_visitor import Visitor


@pytest.fixture
def visitor(gantrymq_broker):
    with Visitor(gantrymq_broker) as found:
        yield found
