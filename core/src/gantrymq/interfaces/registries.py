"""What hooks are handed: registries that take objects by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.dispatch import Dispatcher
from gantrymq.interfaces.extension_points import Gate, Guard, Handler, Interceptor, Service
from gantrymq.interfaces.filtering import BitMaps, FilterType
from gantrymq.interfaces.name_servers import NameServerKind
from gantrymq.interfaces.store import MessageStore
from gantrymq.interfaces.transactions import TransactionService
from gantrymq.world import World

if TYPE_CHECKING:
    import click

Made = TypeVar("Made", contravariant=True)


@attrs.frozen
class StoreContext:
    """What a store is built from."""

    world: World
    root: Path  # storePathRootDir
    settings: Settings
    log: Callable[[str], Any] = lambda sentence: None  # one sentence for the operator
    progress: Callable[[str], Any] = lambda sentence: None  # the same for what goes on; at most one a second
    reserve_ms: Callable[[str], int] = lambda topic: -1  # how long a topic keeps messages, -1 for as long as the log
    bit_maps: BitMaps = attrs.field(factory=dict)  # to be asked for the bits of each new ext unit


class FactoryRegistry(Protocol[Made]):
    """Factories by name."""

    def add(self, name: str, factory: Made) -> None:
        """Offer *factory* under *name*. Raises PluginConflict when the name is taken."""


class ObjectRegistry(Protocol[Made]):
    """Objects that tell their key themselves: a name, or a place in the order."""

    def add(self, each: Made) -> None:
        """Add one. Raises PluginConflict when its key is taken."""


class HandlerRegistry(Protocol):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Serve *code*. Raises PluginConflict when another plugin does already."""


class CommandRegistry(Protocol):
    """Commands and groups of the command line."""

    def add(self, command: click.Command) -> None:
        """Add a command or group. Raises PluginConflict when its name is taken."""

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Add a command or group that is imported when it is used, so that nobody else pays for it.

        Args:
            name: the word after ``gantrymq``; two words for a subcommand of core's group.
            where: "package.module:attribute"; the attribute is a click.Command.
            purpose: one sentence, for the list of commands; empty leaves it out of the list.

        Raises:
            PluginConflict: the name is taken.
            PluginError: the name is empty, or *where* has no colon.
        """


class ConfigRegistry(Protocol):
    """Settings that a plugin declares."""

    def add(self, setting: Setting) -> None:
        """Declare a key. Raises PluginConflict when it is taken."""


StoreRegistry = FactoryRegistry[Callable[[StoreContext], MessageStore]]
"""Stores by name; ``store=NAME`` picks one."""

DispatcherRegistry = FactoryRegistry[Callable[[StoreContext], Dispatcher]]
"""Followers of the log."""

FilterRegistry = FactoryRegistry[Callable[[], FilterType]]
"""Filter types by the name clients use."""

AllocationRegistry = FactoryRegistry[Callable[[dict[str, str]], AllocationStrategy]]
"""Allocation strategies by name, built from their settings."""

TransactionRegistry = FactoryRegistry[Callable[[], TransactionService]]
"""Transaction services by name; ``transaction=NAME`` picks one."""

InterceptorRegistry = ObjectRegistry[Interceptor]
"""Interceptors by order."""

GateRegistry = ObjectRegistry[Gate]
"""Gates by name; an acknowledgement waits for all of them."""

GuardRegistry = ObjectRegistry[Guard]
"""Guards by order; a request is served when all of them let it pass."""

ServiceRegistry = ObjectRegistry[Service]
"""Background services by name."""

NameServerRegistry = ObjectRegistry[NameServerKind]
"""Name servers by name."""
