"""What hooks are handed: registries that take objects by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.broker import Gate, Handler, Interceptor, Service
from gantrymq.interfaces.dispatch import Dispatcher
from gantrymq.interfaces.filtering import FilterType
from gantrymq.interfaces.store import MessageStore
from gantrymq.interfaces.transactions import TransactionService
from gantrymq.world import World

if TYPE_CHECKING:
    import click


@attrs.frozen
class StoreContext:
    """What a store is built from."""

    world: World
    root: Path  # storePathRootDir
    settings: Settings
    log: Callable[[str], Any] = lambda sentence: None  # one sentence for the operator
    progress: Callable[[str], Any] = lambda sentence: None  # the same for what goes on; at most one a second
    reserve_ms: Callable[[str], int] = lambda topic: -1  # how long a topic keeps messages, -1 for as long as the log


class StoreRegistry(Protocol):
    """Stores by name; ``store=NAME`` picks one."""

    def add(self, name: str, factory: Callable[[StoreContext], MessageStore]) -> None:
        """Offer a store. Raises PluginConflict when *name* is taken."""


class DispatcherRegistry(Protocol):
    """Followers of the log."""

    def add(self, name: str, factory: Callable[[StoreContext], Dispatcher]) -> None:
        """Add a dispatcher. Raises PluginConflict when *name* is taken."""


class FilterRegistry(Protocol):
    """Filter types by the name clients use."""

    def add(self, name: str, factory: Callable[[], FilterType]) -> None:
        """Add a filter type. Raises PluginConflict when *name* is taken."""


class AllocationRegistry(Protocol):
    """Allocation strategies by name."""

    def add(self, name: str, factory: Callable[[dict[str, str]], AllocationStrategy]) -> None:
        """Add a strategy built from its settings. Raises PluginConflict when *name* is taken."""


class TransactionRegistry(Protocol):
    """Transaction services by name; ``transaction=NAME`` picks one."""

    def add(self, name: str, factory: Callable[[], TransactionService]) -> None:
        """Offer a service. Raises PluginConflict when *name* is taken."""


class InterceptorRegistry(Protocol):
    """Interceptors by order."""

    def add(self, interceptor: Interceptor) -> None:
        """Add one. Raises PluginConflict when its order is taken."""


class GateRegistry(Protocol):
    """Gates; an acknowledgement waits for all of them."""

    def add(self, gate: Gate) -> None:
        """Add one. Raises PluginConflict when its name is taken."""


class HandlerRegistry(Protocol):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Serve *code*. Raises PluginConflict when another plugin does already."""


class ServiceRegistry(Protocol):
    """Background services."""

    def add(self, service: Service) -> None:
        """Add one. Raises PluginConflict when its name is taken."""


class CommandRegistry(Protocol):
    """Command groups of the command line."""

    def add(self, command: click.Command) -> None:
        """Add a command or group. Raises PluginConflict when its name is taken."""

    def add_imported(self, name: str, where: str, purpose: str) -> None:
        """Add a command or group that is imported when it is used, so that nobody else pays for it.

        Args:
            name: the word after ``gantrymq``.
            where: "package.module:attribute"; the attribute is a click.Command.
            purpose: one sentence, for the list of commands.

        Raises:
            PluginConflict: the name is taken.
            PluginError: the name is empty, or *where* has no colon.
        """


class ConfigRegistry(Protocol):
    """Settings that a plugin declares."""

    def add(self, setting: Setting) -> None:
        """Declare a key. Raises PluginConflict when it is taken."""
