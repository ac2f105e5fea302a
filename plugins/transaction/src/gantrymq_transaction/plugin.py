"""Entry point ``transaction``: the service ``rocketmq``, its settings, requests and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl

if TYPE_CHECKING:
    from gantrymq.interfaces import CommandRegistry, ConfigRegistry, TransactionRegistry

NAME = "rocketmq"


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare when producers are asked, and how often."""
    from gantrymq_transaction.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_transactions(registry: TransactionRegistry) -> None:
    """Offer the service."""
    from gantrymq_transaction.service import RocketTransactions

    registry.add(NAME, RocketTransactions)


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Offer ``gantrymq transactions``, which is imported when it is used."""
    registry.add_imported(
        "transactions", "gantrymq_transaction.commands:transactions", "Show undecided transactions, and ask again."
    )
