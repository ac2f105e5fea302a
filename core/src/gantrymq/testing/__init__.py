"""What tests of GantryMQ and of its plugins share: contract tests, one class for each kind of plugin, and brokers to
test against (pytest has them as fixtures, see `gantrymq.testing.pytest_plugin`).

Needs pytest (``pip install gantrymq[testing]``). Names are imported when they are first used, so that nothing here
costs a broker anything.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq.testing.allocation_contract import AllocationContract
    from gantrymq.testing.cluster import Cluster
    from gantrymq.testing.dispatcher_contract import DispatcherContract
    from gantrymq.testing.failing_files import FailingFiles
    from gantrymq.testing.filter_contract import FilterContract
    from gantrymq.testing.running_broker import RunningBroker
    from gantrymq.testing.simulation import simulate_cluster
    from gantrymq.testing.store_contract import StoreContract

__all__ = [
    "AllocationContract",
    "Cluster",
    "DispatcherContract",
    "FailingFiles",
    "FilterContract",
    "RunningBroker",
    "StoreContract",
    "simulate_cluster",
]

_HOMES = {
    "AllocationContract": "gantrymq.testing.allocation_contract",
    "Cluster": "gantrymq.testing.cluster",
    "DispatcherContract": "gantrymq.testing.dispatcher_contract",
    "FailingFiles": "gantrymq.testing.failing_files",
    "FilterContract": "gantrymq.testing.filter_contract",
    "RunningBroker": "gantrymq.testing.running_broker",
    "StoreContract": "gantrymq.testing.store_contract",
    "simulate_cluster": "gantrymq.testing.simulation",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(home)  # so that a failing contract shows the values
    return getattr(import_module(home), name)
