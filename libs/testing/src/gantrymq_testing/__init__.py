"""Shared support for tests of GantryMQ and its plugins: contract tests, one class per kind of plugin, and brokers to
test against (as pytest fixtures, see `gantrymq_testing.pytest_plugin`).

Names are imported on first use, so that tests only pay for the parts they use.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq_testing.allocation_contract import AllocationContract
    from gantrymq_testing.cluster import Cluster
    from gantrymq_testing.dispatcher_contract import DispatcherContract
    from gantrymq_testing.failing_files import FailingFiles
    from gantrymq_testing.filter_contract import FilterContract
    from gantrymq_testing.raw_log_contract import DurableRawLogContract, RawLogContract
    from gantrymq_testing.running_broker import RunningBroker
    from gantrymq_testing.simulation import simulate_cluster
    from gantrymq_testing.store_contract import StoreContract
    from gantrymq_testing.transaction_contract import TransactionContract

__all__ = [
    "AllocationContract",
    "Cluster",
    "DispatcherContract",
    "DurableRawLogContract",
    "FailingFiles",
    "FilterContract",
    "RawLogContract",
    "RunningBroker",
    "StoreContract",
    "TransactionContract",
    "simulate_cluster",
]

_HOMES = {
    "AllocationContract": "gantrymq_testing.allocation_contract",
    "Cluster": "gantrymq_testing.cluster",
    "DispatcherContract": "gantrymq_testing.dispatcher_contract",
    "FailingFiles": "gantrymq_testing.failing_files",
    "FilterContract": "gantrymq_testing.filter_contract",
    "DurableRawLogContract": "gantrymq_testing.raw_log_contract",
    "RawLogContract": "gantrymq_testing.raw_log_contract",
    "RunningBroker": "gantrymq_testing.running_broker",
    "StoreContract": "gantrymq_testing.store_contract",
    "TransactionContract": "gantrymq_testing.transaction_contract",
    "simulate_cluster": "gantrymq_testing.simulation",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(home)  # so that a failing contract shows the values
    return getattr(import_module(home), name)
