"""Protocols of the registries that are passed to hooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.errors import PluginError
from gantrymq.interfaces.access import Authorizer
from gantrymq.interfaces.extension_points import AllocationStrategy, Dispatcher, Gate, Interceptor, Service
from gantrymq.interfaces.filtering import BitMaps, FilterType
from gantrymq.interfaces.name_servers import NameServerKind
from gantrymq.interfaces.store import MessageStore
from gantrymq.interfaces.transactions import TransactionService
from gantrymq.world import World

if TYPE_CHECKING:
    import click

Made = TypeVar("Made", contravariant=True)


def _no_store(name: str) -> MessageStore:
    raise PluginError(f"store={name} cannot be wrapped: there are no other stores in this context")


@attrs.frozen
class StoreContext:
    """The arguments of a store factory."""

    world: World
    root: Path  # storePathRootDir
    settings: Settings
    log: Callable[[str], Any] = lambda sentence: None  # report one sentence to the operator
    progress: Callable[[str], Any] = lambda sentence: None  # report progress, at most once a second
    reserve_ms: Callable[[str], int] = lambda topic: -1  # retention of a topic, ms; -1: same as the log
    has_batch_queues: Callable[[str], bool] = lambda topic: False  # whether a topic has queue.type=BatchCQ
    # create another installed store with the same context, for a store that wraps it; raises PluginError
    store: Callable[[str], MessageStore] = _no_store
    bit_maps: BitMaps = attrs.field(factory=dict)  # functions for the bits of each new ext unit


@attrs.frozen
class AuthorizerContext:
    """The arguments of an authorizer factory."""

    world: World
    settings: Settings
    folder: Path = Path()  # where its files are by default: config/ of the store, or accessPath of a name server
    writable: bool = True  # False on a name server: the files belong to a broker or an operator, and may change


class FactoryRegistry(Protocol[Made]):
    """Factories by name."""

    def add(self, name: str, factory: Made) -> None:
        """Register *factory* under *name*. Raises PluginConflict if the name is taken."""


class ObjectRegistry(Protocol[Made]):
    """Objects with a key of their own: a name or an order number."""

    def add(self, each: Made) -> None:
        """Register an object. Raises PluginConflict if its key is taken."""


class CommandRegistry(Protocol):
    """Commands and groups of the command line."""

    def add(self, command: click.Command) -> None:
        """Add a command or group. Raises PluginConflict if its name is taken."""

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Add a command or group that is imported only when it is used.

        Args:
            name: the word after ``gantrymq``; two words for a subcommand of core's group.
            where: "package.module:attribute"; the attribute is a click.Command.
            purpose: one sentence for the list of commands; if empty, the command is not listed.

        Raises:
            PluginConflict: the name is taken.
            PluginError: the name is empty or *where* has no colon.
        """


class ConfigRegistry(Protocol):
    """Settings that a plugin declares."""

    def add(self, setting: Setting) -> None:
        """Declare a key. Raises PluginConflict if it is taken."""


StoreRegistry = FactoryRegistry[Callable[[StoreContext], MessageStore]]
"""Stores by name; ``store=NAME`` selects one."""

DispatcherRegistry = FactoryRegistry[Callable[[StoreContext], Dispatcher]]
"""Dispatchers by name."""

FilterRegistry = FactoryRegistry[Callable[[], FilterType]]
"""Filter types by the name that clients use."""

AllocationRegistry = FactoryRegistry[Callable[[dict[str, str]], AllocationStrategy]]
"""Allocation strategies by name, built from their settings."""

TransactionRegistry = FactoryRegistry[Callable[[], TransactionService]]
"""Transaction services by name; ``transaction=NAME`` selects one."""

InterceptorRegistry = ObjectRegistry[Interceptor]
"""Interceptors by order."""

GateRegistry = ObjectRegistry[Gate]
"""Gates by name; an acknowledgement waits for all of them."""

AuthorizerRegistry = FactoryRegistry[Callable[[AuthorizerContext], Authorizer]]
"""Authorizers by name; ``authorizer=NAME`` selects one."""

ServiceRegistry = ObjectRegistry[Service]
"""Background services by name."""

NameServerRegistry = ObjectRegistry[NameServerKind]
"""Name servers by name."""
