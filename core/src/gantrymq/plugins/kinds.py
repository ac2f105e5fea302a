"""The table of hooks: registries, loading and `Plugins` are derived from it.

A new hook needs a spec in `gantrymq.hooks`, a row here, and a member of `gantrymq.plugins.loaded.Plugins`.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.plugins.registries import (
    CommandRegistry,
    FactoryRegistry,
    HandlerRegistry,
    NamedListRegistry,
    NamedRegistry,
    OrderedRegistry,
    Registry,
    SettingRegistry,
)

__all__ = ["KINDS", "HookKind", "registries"]


@attrs.frozen
class HookKind:
    """A hook and the kind of objects that it registers."""

    hook: str
    registry: type[Registry[Any, Any]]
    title: str  # name of one object in messages
    member: str  # member of `Plugins`


KINDS: Final = (  # in order of the hook calls
    HookKind("gantry_register_config", SettingRegistry, "setting", "schema"),
    HookKind("gantry_register_stores", FactoryRegistry, "store", "stores"),
    HookKind("gantry_register_dispatchers", FactoryRegistry, "dispatcher", "dispatchers"),
    HookKind("gantry_register_filters", FactoryRegistry, "filter", "filters"),
    HookKind("gantry_register_allocations", FactoryRegistry, "allocation", "allocations"),
    HookKind("gantry_register_transactions", FactoryRegistry, "transaction service", "transactions"),
    HookKind("gantry_register_interceptors", OrderedRegistry, "interceptor with order", "interceptors"),
    HookKind("gantry_register_gates", NamedListRegistry, "gate", "gates"),
    HookKind("gantry_register_guards", OrderedRegistry, "guard with order", "guards"),
    HookKind("gantry_register_handlers", HandlerRegistry, "handler for request code", "handlers"),
    HookKind("gantry_register_services", NamedListRegistry, "service", "services"),
    HookKind("gantry_register_name_servers", NamedRegistry, "name server", "name_servers"),
    HookKind("gantry_register_commands", CommandRegistry, "command", "commands"),
)


def registries() -> dict[str, Registry[Any, Any]]:
    """Return a new registry for each hook, by the hook's name."""
    return {kind.hook: kind.registry(kind.title) for kind in KINDS}
