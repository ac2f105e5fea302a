"""The registries that hooks are handed: they know who registers, and refuse a name that is taken.

`Shelf` keeps objects of one kind under unique keys, each with its owner. The registries on top give it the signatures
of `gantrymq.interfaces.registries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from gantrymq.commands.imported import ImportedCommand
from gantrymq.config import Setting
from gantrymq.errors import PluginConflict, PluginError

if TYPE_CHECKING:
    import click

    from gantrymq.interfaces import (
        AllocationStrategy,
        Dispatcher,
        FilterType,
        Gate,
        Handler,
        Interceptor,
        MessageStore,
        Service,
        StoreContext,
        TransactionService,
    )

K = TypeVar("K", int, str)
V = TypeVar("V")


class Shelf(Generic[K, V]):
    """Objects of one kind under unique keys."""

    def __init__(self, kind: str) -> None:
        """*kind*: what one object is called in sentences, e.g. "store"."""
        self.kind = kind
        self.owner = ""  # the plugin whose hook runs right now
        self._items: dict[K, tuple[str, V]] = {}

    def put(self, key: K, value: V) -> None:
        """Keep *value*. Raises PluginConflict when the key is taken, naming both owners."""
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
        """Drop everything *owner* put here."""
        self._items = {key: item for key, item in self._items.items() if item[0] != owner}

    def owned_by(self, owner: str) -> list[str]:
        """What *owner* registered, as words for people, in order of registration."""
        return [f"{self.kind} {key}" for key, item in self._items.items() if item[0] == owner]

    def as_dict(self) -> dict[K, V]:
        """Every object by key, sorted by key."""
        return {key: self._items[key][1] for key in sorted(self._items)}


class Factories(Shelf[str, V]):
    """Stores, dispatchers, filter types, strategies, transaction services: a factory by name."""

    def add(self, name: str, factory: V) -> None:
        """Keep *factory* under *name*."""
        if not name or not callable(factory):
            raise PluginError(f"plugin {self.owner} registers a {self.kind} with name {name!r} and factory {factory!r}")
        self.put(name, factory)


class Interceptors(Shelf[int, "Interceptor"]):
    """Interceptors by their order."""

    def add(self, interceptor: Interceptor) -> None:
        """Keep *interceptor* under its order."""
        self.put(interceptor.order, interceptor)


class Gates(Shelf[str, "Gate"]):
    """Gates by name."""

    def add(self, gate: Gate) -> None:
        """Keep *gate* under its name."""
        self.put(gate.name, gate)


class Handlers(Shelf[int, "Handler"]):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Keep *handler* under its request code."""
        self.put(code, handler)


class Services(Shelf[str, "Service"]):
    """Background services by name."""

    def add(self, service: Service) -> None:
        """Keep *service* under its name."""
        self.put(service.name, service)


class Commands(Shelf[str, "click.Command | ImportedCommand"]):
    """Commands by name."""

    def add(self, command: click.Command) -> None:
        """Keep *command* under its name."""
        if not command.name:
            raise PluginError(f"plugin {self.owner} registers a command without a name")
        self.put(command.name, command)

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Keep under *name* that the command is at *where*."""
        if not name or ":" not in where:
            raise PluginError(f"plugin {self.owner} registers a command with name {name!r} and place {where!r}")
        self.put(name, ImportedCommand(where, purpose))


class Declarations(Shelf[str, Setting]):
    """Settings by key; core's own keys are taken from the start."""

    def __init__(self, kind: str, reserved: Iterable[Setting] = ()) -> None:
        super().__init__(kind)
        self._reserved = frozenset(setting.key for setting in reserved)

    def add(self, setting: Setting) -> None:
        """Keep *setting* under its key."""
        if setting.key in self._reserved:
            raise PluginConflict(f"plugin {self.owner} declares the setting {setting.key}, which belongs to gantrymq")
        self.put(setting.key, setting)


class Registries:
    """One registry for each hook."""

    def __init__(self, reserved: Iterable[Setting] = ()) -> None:
        """*reserved*: settings that core declares."""
        self.config = Declarations("setting", reserved)
        self.stores: Factories[Callable[[StoreContext], MessageStore]] = Factories("store")
        self.dispatchers: Factories[Callable[[StoreContext], Dispatcher]] = Factories("dispatcher")
        self.filters: Factories[Callable[[], FilterType]] = Factories("filter")
        self.allocations: Factories[Callable[[dict[str, str]], AllocationStrategy]] = Factories("allocation")
        self.transactions: Factories[Callable[[], TransactionService]] = Factories("transaction service")
        self.interceptors = Interceptors("interceptor with order")
        self.gates = Gates("gate")
        self.handlers = Handlers("handler for request code")
        self.services = Services("service")
        self.commands = Commands("command")

    def by_hook(self) -> dict[str, Shelf[str, object] | Shelf[int, object]]:
        """Hook name to the registry it is handed, in the order in which hooks are called."""
        return {f"gantry_register_{word}": registry for word, registry in vars(self).items()}
