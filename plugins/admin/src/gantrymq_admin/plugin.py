"""Registers the commands that administer a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry

COMMANDS = {
    "status": ("status:status", "Show the clusters and their brokers."),
    "cluster": (
        "cluster:cluster",
        "Show the brokers of each cluster; export and import definitions; plan a cluster; change elected masters.",
    ),
    "topic": ("topic:topic", "List, create, delete and look at topics."),
    "group": ("group:group", "List, create, delete and look at consumer groups."),
    "message": ("message:message", "Send, pull, follow and find messages."),
    "transactions": ("transactions:transactions", "Show undecided transactions, and resume their checks."),
    "bench": ("bench:bench", "Measure how fast brokers take messages and give them out."),
    "broker clean": ("broker:clean", "Delete what has expired: log, queues, topics, or several of them."),
    "broker config": ("broker:config", "Show and change the settings of brokers that run."),
    "broker write-perm": (
        "broker:write_perm",
        "Close a broker for producers at the name servers, and open it again.",
    ),
    "nameserver config": ("nameserver_config:config", "Show and change the settings of name servers that run."),
    "mqadmin": ("mqadmin:mqadmin", ""),  # without a description: omitted from the help
}
"""The words after ``gantrymq``, with the command's location below `gantrymq_admin.commands` and its description."""


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register the commands, which are imported when they are used."""
    for words, (place, purpose) in COMMANDS.items():
        registry.add_imported(words, f"gantrymq_admin.commands.{place}", purpose)
