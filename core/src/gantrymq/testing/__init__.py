"""What tests of GantryMQ and of its plugins share: contract tests, one class for each kind of plugin.

Needs pytest (``pip install gantrymq[testing]``). Names are imported when they are first used, so that nothing here
costs a broker anything.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq.testing.filter_contract import FilterContract
    from gantrymq.testing.store_contract import StoreContract

__all__ = ["FilterContract", "StoreContract"]

_HOMES = {
    "FilterContract": "gantrymq.testing.filter_contract",
    "StoreContract": "gantrymq.testing.store_contract",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(home)  # so that a failing contract shows the values
    return getattr(import_module(home), name)
