"""The kinds of things that plugins register: one table, from which registries, loading and its result follow.

A new kind is a spec in `gantrymq.hooks`, a row here, and a member of `gantrymq.plugins.loaded.Plugins`.
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
    """What one hook registers."""

    hook: str
    registry: type[Registry[Any, Any]]
    title: str  # of one object, in sentences
    member: str  # of `Plugins`


KINDS: Final = (  # in the order in which hooks are called
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
    """A registry for each hook, by the hook's name."""
    return {kind.hook: kind.registry(kind.title) for kind in KINDS}
