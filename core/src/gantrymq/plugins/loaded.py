"""The result of loading plugins."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from gantrymq.commands.imported import ImportedCommand
from gantrymq.config import Setting, Settings
from gantrymq.errors import PluginError, install_command
from gantrymq.model.averagely import Averagely, averagely

if TYPE_CHECKING:
    import click

    from gantrymq.interfaces import (
        AllocationStrategy,
        Authorizer,
        AuthorizerContext,
        Dispatcher,
        FilterType,
        Gate,
        Interceptor,
        ListenerProtocol,
        MessageStore,
        NameServerKind,
        Service,
        StoreContext,
        TransactionService,
    )
    from gantrymq.remoting.serving import Handler

STORE_TO_INSTALL = "gantrymq-storage-mmap"
ALLOCATION_TO_INSTALL = "gantrymq-allocate"
ALLOCATIONS_OF_CORE: Final[Mapping[str, Callable[[dict[str, str]], AllocationStrategy]]] = {Averagely.name: averagely}


class PluginState(enum.Enum):
    """State of an installed plugin."""

    LOADED = "loaded"
    BROKEN = "broken"
    LEFT_OUT = "left out"  # not named by plugins=


@attrs.frozen
class PluginInfo:
    """One line of ``gantrymq plugins``."""

    name: str
    distribution: str
    version: str
    state: PluginState
    registers: tuple[str, ...] = ()  # e.g. "store mmap", "filter TAG"
    problem: str = ""  # error sentence of a broken plugin


@attrs.frozen
class ProtocolEntry:
    """A protocol of listeners; see `gantrymq.interfaces.ProtocolRegistry`."""

    factory: Callable[[], ListenerProtocol]
    first: tuple[bytes, ...]
    alpn: tuple[str, ...] = ()


@attrs.frozen
class Plugins:
    """All registered objects by kind. Factories have not been called yet."""

    infos: tuple[PluginInfo, ...] = ()
    problems: tuple[str, ...] = ()  # one sentence each; always empty in a server, which does not start otherwise
    config: tuple[Setting, ...] = ()  # settings declared by plugins, without those of core
    stores: Mapping[str, Callable[[StoreContext], MessageStore]] = attrs.field(factory=dict)
    dispatchers: Mapping[str, Callable[[StoreContext], Dispatcher]] = attrs.field(factory=dict)
    filters: Mapping[str, Callable[[], FilterType]] = attrs.field(factory=dict)
    allocations: Mapping[str, Callable[[dict[str, str]], AllocationStrategy]] = ALLOCATIONS_OF_CORE
    transactions: Mapping[str, Callable[[], TransactionService]] = attrs.field(factory=dict)
    interceptors: tuple[Interceptor, ...] = ()  # in ascending order
    gates: tuple[Gate, ...] = ()
    authorizers: Mapping[str, Callable[[AuthorizerContext], Authorizer]] = attrs.field(factory=dict)
    handlers: Mapping[int, Handler] = attrs.field(factory=dict)
    protocols: Mapping[str, ProtocolEntry] = attrs.field(factory=dict)
    services: tuple[Service, ...] = ()
    name_servers: Mapping[str, NameServerKind] = attrs.field(factory=dict)
    commands: Mapping[str, click.Command | ImportedCommand] = attrs.field(factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """Return the names of the plugins that ``plugins=`` leaves out, by distribution."""
        return {info.distribution: info.name for info in self.infos if info.state is PluginState.LEFT_OUT}

    def store(self, name: str, settings: Settings | None = None) -> Callable[[StoreContext], MessageStore]:
        """Return the factory that ``store=NAME`` selects; *settings* gives the source of the value for errors.

        Raises:
            PluginError: no store plugin is installed, or none with that name.
        """
        if name in self.stores:
            return self.stores[name]
        if not self.stores:
            left_out = [info.name for info in self.infos if info.state is PluginState.LEFT_OUT]
            hint = f" ({_origin(settings, 'plugins')}plugins= leaves out {', '.join(left_out)})" if left_out else ""
            raise PluginError(
                f"no store plugin is installed{hint}; install one with: {install_command(STORE_TO_INSTALL)}"
            )
        raise PluginError(
            f"{_origin(settings, 'store')}store={name}: no installed plugin offers a store of that name (there is "
            f"{', '.join(self.stores)}); set store= to one of these or install its plugin"
        )

    def allocation(self, name: str) -> Callable[[dict[str, str]], AllocationStrategy]:
        """Return the factory of the allocation strategy *name*, which takes the strategy's settings.

        Raises:
            PluginError: no installed plugin offers it.
        """
        if name in self.allocations:
            return self.allocations[name]
        raise PluginError(
            f"no installed plugin offers the allocation strategy {name} (there is {', '.join(self.allocations)}); "
            f"RocketMQ's others are installed with: {install_command(ALLOCATION_TO_INSTALL)}"
        )


def _origin(settings: Settings | None, key: str) -> str:
    source = settings.source(key) if settings is not None else "default"
    return "" if source == "default" else f"{source}: "
