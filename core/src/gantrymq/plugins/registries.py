"""The registries that hooks are handed: they know who registers, and refuse a name that is taken.

`Shelf` keeps objects of one kind under unique keys, each with its owner. The registries on top give it the signatures
of `gantrymq.interfaces.registries`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gantrymq.commands.imported import ImportedCommand
from gantrymq.config import Setting
from gantrymq.errors import PluginConflict, PluginError

if TYPE_CHECKING:
    from gantrymq.interfaces import Handler

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

    def collected(self) -> dict[K, V] | tuple[V, ...]:
        """What `gantrymq.plugins.loaded.Plugins` holds of this kind."""
        return self.as_dict()


class Factories(Shelf[str, Any]):
    """Stores, dispatchers, filter types, strategies, transaction services: a factory by name."""

    def add(self, name: str, factory: Any) -> None:
        """Keep *factory* under *name*."""
        if not name or not callable(factory):
            raise PluginError(f"plugin {self.owner} registers a {self.kind} with name {name!r} and factory {factory!r}")
        self.put(name, factory)


class ByOrder(Shelf[int, Any]):
    """Interceptors and guards by their order."""

    def add(self, each: Any) -> None:
        """Keep it under its order."""
        self.put(each.order, each)

    def collected(self) -> tuple[Any, ...]:
        """By ascending order."""
        return tuple(self.as_dict().values())


class ByName(Shelf[str, Any]):
    """Objects with names: commands, gates, services, name servers."""

    def add(self, each: Any) -> None:
        """Keep it under its name."""
        if not each.name:
            raise PluginError(f"plugin {self.owner} registers a {self.kind} without a name")
        self.put(each.name, each)


class AllByName(ByName):
    """Objects with names of which all are used."""

    def collected(self) -> tuple[Any, ...]:
        """Sorted by name."""
        return tuple(self.as_dict().values())


class Commands(ByName):
    """Commands by name: themselves, or where they are."""

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Keep under *name* that the command is at *where*."""
        if not name or ":" not in where:
            raise PluginError(f"plugin {self.owner} registers a command with name {name!r} and place {where!r}")
        self.put(name, ImportedCommand(where, purpose))


class Handlers(Shelf[int, "Handler"]):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Keep *handler* under its request code."""
        self.put(code, handler)


class Declarations(Shelf[str, Setting]):
    """Settings by key; core's own keys are taken from the start."""

    reserved: Collection[str] = ()

    def add(self, setting: Setting) -> None:
        """Keep *setting* under its key."""
        if setting.key in self.reserved:
            raise PluginConflict(f"plugin {self.owner} declares the setting {setting.key}, which belongs to gantrymq")
        self.put(setting.key, setting)

    def collected(self) -> tuple[Setting, ...]:
        """Sorted by key."""
        return tuple(self.as_dict().values())
