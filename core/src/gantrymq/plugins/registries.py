"""The registries that are passed to hooks, and the table of hooks from which loading and `Plugins` are derived.

`Registry` keeps objects of one kind under unique keys, each with its owner, and rejects duplicate keys. The subclasses
provide the method signatures of `gantrymq.interfaces.registries`.

A new hook needs a spec in `gantrymq.hooks`, a row in the table, and a member of `gantrymq.plugins.loaded.Plugins`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from gantrymq.commands.imported import ImportedCommand
from gantrymq.config import Setting
from gantrymq.errors import PluginConflict, PluginError
from gantrymq.plugins.loaded import ALLOCATIONS_OF_CORE, ProtocolEntry
from gantrymq.remoting.listeners import REMOTING

if TYPE_CHECKING:
    from gantrymq.remoting.serving import Handler

_PROTOCOL_NAME: Final = re.compile(r"[a-z][a-z0-9.-]*")

K = TypeVar("K", int, str)
V = TypeVar("V")


class Registry(Generic[K, V]):
    """Objects of one kind under unique keys."""

    def __init__(self, kind: str) -> None:
        """*kind*: the name of one object in error messages, for example "store"."""
        self.kind = kind
        self.owner = ""  # the plugin whose hook is running
        self._items: dict[K, tuple[str, V]] = {}

    def put(self, key: K, value: V) -> None:
        """Store *value*. Raises PluginConflict with both owners if the key is taken."""
        taken = self._items.get(key)
        if taken is not None:
            first = f"the plugins {taken[0]} and {self.owner} both register"
            if taken[0] == self.owner:
                first = f"plugin {self.owner} registers twice"
            raise PluginConflict(
                f"{first} {self.kind} {key}; uninstall one of them or name the plugins to load with plugins=..."
            )
        self._items[key] = (self.owner, value)

    def forget(self, owner: str) -> None:
        """Remove every entry of *owner*."""
        self._items = {key: item for key, item in self._items.items() if item[0] != owner}

    def owned_by(self, owner: str) -> list[str]:
        """Return readable names of the entries of *owner*, in order of registration."""
        return [f"{self.kind} {key}" for key, item in self._items.items() if item[0] == owner]

    def as_dict(self) -> dict[K, V]:
        """Return all objects by key, sorted by key."""
        return {key: self._items[key][1] for key in sorted(self._items)}

    def collected(self) -> dict[K, V] | tuple[V, ...]:
        """Return the value for `gantrymq.plugins.loaded.Plugins`."""
        return self.as_dict()


class FactoryRegistry(Registry[str, Any]):
    """Factories by name: stores, dispatchers, filter types, strategies, transaction services, authorizers."""

    def __init__(self, kind: str, takes: str = "", of_core: Mapping[str, Any] | None = None) -> None:
        """Create the registry.

        Args:
            kind: as for `Registry`.
            takes: the class of the only argument of a factory; empty for none.
            of_core: factories that exist without any plugin.
        """
        super().__init__(kind)
        self._takes = takes
        self._of_core = of_core or {}

    def add(self, name: str, factory: Any) -> None:
        """Register *factory* under *name*. Raises PluginError if it cannot be called with its argument."""
        if not name or not callable(factory):
            raise PluginError(f"plugin {self.owner} registers a {self.kind} with name {name!r} and factory {factory!r}")
        try:
            inspect.signature(factory).bind(*((None,) if self._takes else ()))
        except ValueError:  # a function in C without a signature
            pass
        except TypeError as problem:
            arguments = f"one argument of type {self._takes}" if self._takes else "no argument"
            shown = getattr(factory, "__name__", repr(factory))
            raise PluginError(
                f"plugin {self.owner}: the factory of the {self.kind} {name} is called with {arguments}, and {shown} "
                f"does not accept that: {problem}"
            ) from None
        if name in self._of_core:
            raise PluginConflict(f"plugin {self.owner} registers the {self.kind} {name}, which belongs to gantrymq")
        self.put(name, factory)

    def collected(self) -> dict[str, Any]:
        """Return the factories of core, then those of plugins sorted by name."""
        return {**self._of_core, **self.as_dict()}


class OrderedRegistry(Registry[int, Any]):
    """Interceptors by order."""

    def add(self, each: Any) -> None:
        """Register an object under its order."""
        self.put(each.order, each)

    def collected(self) -> tuple[Any, ...]:
        """Return the objects by ascending order."""
        return tuple(self.as_dict().values())


class NamedRegistry(Registry[str, Any]):
    """Named objects: commands, gates, services, name servers."""

    def add(self, each: Any) -> None:
        """Register an object under its name."""
        if not each.name:
            raise PluginError(f"plugin {self.owner} registers a {self.kind} without a name")
        self.put(each.name, each)


class NamedListRegistry(NamedRegistry):
    """Named objects that are all used."""

    def collected(self) -> tuple[Any, ...]:
        """Return the objects sorted by name."""
        return tuple(self.as_dict().values())


class ProtocolRegistry(Registry[str, ProtocolEntry]):
    """Protocols of listeners by name; the remoting protocol belongs to core."""

    def add(
        self,
        name: str,
        factory: Callable[[], Any],
        *,
        first: tuple[bytes, ...],
        alpn: tuple[str, ...] = (),
    ) -> None:
        """Register a protocol. Raises PluginError if an argument cannot be used."""
        if not _PROTOCOL_NAME.fullmatch(name):
            raise PluginError(
                f"plugin {self.owner} registers a {self.kind} with the name {name!r}; it must begin with a lower-case "
                "letter and have only these, digits, dots and hyphens"
            )
        if name == REMOTING:
            raise PluginConflict(f"plugin {self.owner} registers the {self.kind} {name}, which belongs to gantrymq")
        if not callable(factory):
            raise PluginError(f"plugin {self.owner}: the factory of the {self.kind} {name} is {factory!r}")
        if not isinstance(first, tuple) or not first or not all(isinstance(each, bytes) and each for each in first):
            raise PluginError(
                f"plugin {self.owner}: the {self.kind} {name} needs first, a tuple of the bytes with which its clients "
                f"begin, and has {first!r}"
            )
        if not isinstance(alpn, tuple) or not all(isinstance(each, str) and each.isascii() and each for each in alpn):
            raise PluginError(
                f"plugin {self.owner}: alpn of the {self.kind} {name} is {alpn!r}, not a tuple of names in ASCII"
            )
        self.put(name, ProtocolEntry(factory, first, alpn))


class CommandRegistry(NamedRegistry):
    """Commands by name, as objects or as import paths."""

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Register a command to import from *where* under *name*."""
        if not name or ":" not in where:
            raise PluginError(f"plugin {self.owner} registers a command with name {name!r} and place {where!r}")
        self.put(name, ImportedCommand(where, purpose))


class HandlerRegistry(Registry[int, "Handler"]):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Register *handler* for a request code."""
        self.put(code, handler)


class SettingRegistry(Registry[str, Setting]):
    """Settings by key; the keys of core are reserved."""

    reserved: Collection[str] = ()

    def add(self, setting: Setting) -> None:
        """Register *setting* under its key."""
        if setting.key in self.reserved:
            raise PluginConflict(f"plugin {self.owner} declares the setting {setting.key}, which belongs to gantrymq")
        self.put(setting.key, setting)

    def collected(self) -> tuple[Setting, ...]:
        """Return the settings sorted by key."""
        return tuple(self.as_dict().values())


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
    HookKind("protocols", ProtocolRegistry, "listener protocol"),
    HookKind("services", NamedListRegistry, "service"),
    HookKind("name_servers", NamedRegistry, "name server"),
    HookKind("commands", CommandRegistry, "command"),
)


def registries() -> dict[str, Registry[Any, Any]]:
    """Return a new registry for each hook, by the hook's name."""
    return {kind.hook: kind.registry(kind.title) for kind in KINDS}
