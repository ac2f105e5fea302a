"""The table of hooks: registries, loading and `Plugins` are derived from it.

A new hook needs a spec in `gantrymq.hooks`, a row here, and a member of `gantrymq.plugins.loaded.Plugins`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from gantrymq.plugins.loaded import ALLOCATIONS_OF_CORE
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


@attrs.frozen
class HookKind:
    """A hook and the kind of objects that it registers."""

    word: str  # the end of the hook's name, and the member of `Plugins`
    registry: Callable[[str], Registry[Any, Any]]
    title: str  # name of one object in messages

    @property
    def hook(self) -> str:
        """The name of the hook."""
        return f"gantry_register_{self.word}"


def _factories(takes: str = "") -> Callable[[str], Registry[Any, Any]]:
    return partial(FactoryRegistry, takes=takes)


KINDS: Final = (  # in order of the hook calls
    HookKind("config", SettingRegistry, "setting"),
    HookKind("stores", _factories("StoreContext"), "store"),
    HookKind("dispatchers", _factories("StoreContext"), "dispatcher"),
    HookKind("filters", _factories(), "filter"),
    HookKind("allocations", partial(FactoryRegistry, takes="dict", of_core=ALLOCATIONS_OF_CORE), "allocation"),
    HookKind("transactions", _factories(), "transaction service"),
    HookKind("interceptors", OrderedRegistry, "interceptor with order"),
    HookKind("gates", NamedListRegistry, "gate"),
    HookKind("authorizers", _factories("AuthorizerContext"), "authorizer"),
    HookKind("handlers", HandlerRegistry, "handler for request code"),
    HookKind("services", NamedListRegistry, "service"),
    HookKind("name_servers", NamedRegistry, "name server"),
    HookKind("commands", CommandRegistry, "command"),
)


def registries() -> dict[str, Registry[Any, Any]]:
    """Return a new registry for each hook, by the hook's name."""
    return {kind.hook: kind.registry(kind.title) for kind in KINDS}
