"""Makes `import small_store` work whatever import mode pytest runs in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from small_store import SmallStore


@pytest.fixture
def small(tmp_path: Path) -> SmallStore:
    """A sound store of three log files, two topics and an index."""
    store = SmallStore(tmp_path / "store")
    for number in range(60):
        store.add("Orders" if number % 3 else "Bills", number % 2, f"body {number} ".encode() * 20, f"key-{number}")
    store.write()
    return store
