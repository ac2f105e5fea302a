"""The kinds of things that plugins register: one table, from which registries, loading and its result follow.

A new kind is a spec in `gantrymq.hooks`, a row here, and a member of `gantrymq.plugins.loaded.Plugins`.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.plugins.registries import AllByName, ByName, ByOrder, Commands, Declarations, Factories, Handlers, Shelf

__all__ = ["KINDS", "Kind", "registries"]


@attrs.frozen
class Kind:
    """What one hook registers."""

    hook: str
    registry: type[Shelf[Any, Any]]
    title: str  # of one object, in sentences
    member: str  # of `Plugins`


KINDS: Final = (  # in the order in which hooks are called
    Kind("gantry_register_config", Declarations, "setting", "schema"),
    Kind("gantry_register_stores", Factories, "store", "stores"),
    Kind("gantry_register_dispatchers", Factories, "dispatcher", "dispatchers"),
    Kind("gantry_register_filters", Factories, "filter", "filters"),
    Kind("gantry_register_allocations", Factories, "allocation", "allocations"),
    Kind("gantry_register_transactions", Factories, "transaction service", "transactions"),
    Kind("gantry_register_interceptors", ByOrder, "interceptor with order", "interceptors"),
    Kind("gantry_register_gates", AllByName, "gate", "gates"),
    Kind("gantry_register_guards", ByOrder, "guard with order", "guards"),
    Kind("gantry_register_handlers", Handlers, "handler for request code", "handlers"),
    Kind("gantry_register_services", AllByName, "service", "services"),
    Kind("gantry_register_name_servers", ByName, "name server", "name_servers"),
    Kind("gantry_register_commands", Commands, "command", "commands"),
)


def registries() -> dict[str, Shelf[Any, Any]]:
    """A registry for each hook, by the hook's name."""
    return {kind.hook: kind.registry(kind.title) for kind in KINDS}
