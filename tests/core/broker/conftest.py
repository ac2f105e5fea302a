"""A clock that moves when told to, and a broker with the memory store where that plugin is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Makes `import broker_desk` work in any import mode of pytest.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from broker_desk import run_broker
from manual_clock import ManualClock

from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import Plugins


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def settings() -> Settings:
    return Settings(SCHEMA)


@pytest.fixture
def plugins() -> Plugins:
    """The memory store and, where it is installed, the tag filter."""
    store = pytest.importorskip("gantrymq_storage_memory.store")
    return Plugins(stores={"memory": store.MemoryStore})


@pytest.fixture
def broker(plugins: Plugins) -> Callable[..., Any]:
    """``broker(main, key=value)`` runs ``await main(desk)`` against a broker with these settings."""

    def run(main: Callable[..., Any], *, plugins: Plugins = plugins, **values: Any) -> Any:
        return run_broker(plugins, main, **values)

    return run
