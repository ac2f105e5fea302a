"""Entry point ``transaction``: the service ``rocketmq``, its settings and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, TransactionRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_transaction.requests import TransactionRequests

_NAME = "rocketmq"

_of_this_load: list[TransactionRequests] = []  # the transaction hook runs before the handler hook


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of checks."""
    from gantrymq_transaction.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_transactions(registry: TransactionRegistry) -> None:
    """Register the transaction service."""
    from gantrymq_transaction.requests import TransactionRequests

    _of_this_load[:] = [TransactionRequests()]
    registry.add(_NAME, _of_this_load[0].make_service)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of operators' requests."""
    from gantrymq.plugin.remoting import handlers_of

    for code, handler in handlers_of(_of_this_load[0]).items():
        registry.add(code, handler)
