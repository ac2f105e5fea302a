"""Every point where a plugin joins GantryMQ. This file is the contract; nothing runs here.

A hook is called once, at start, and registers objects; the hot path calls the objects, never a hook. The order between
plugins is not promised: the config picks winners by name. Anything a hook raises stops a server's start and names the
plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:  # a command that a plugin offers starts 15 ms sooner without the interfaces
    from gantrymq.interfaces import (
        AllocationRegistry,
        CommandRegistry,
        ConfigRegistry,
        DispatcherRegistry,
        FilterRegistry,
        GateRegistry,
        GuardRegistry,
        HandlerRegistry,
        InterceptorRegistry,
        NameServerRegistry,
        ServiceRegistry,
        StoreRegistry,
        TransactionRegistry,
    )

PROJECT = "gantrymq"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare settings.

    When: first of all hooks, in servers and in commands, before the settings are read.
    Errors: a key declared twice raises PluginConflict.
    """


@hookspec
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Offer message stores by name.

    When: once, at broker start. Runs: the chosen store is the hot path.
    Errors: a name offered twice raises PluginConflict.
    """


@hookspec
def gantry_register_dispatchers(registry: DispatcherRegistry) -> None:
    """Add followers of the log.

    When: once, at broker start. Runs: after publication, in batches; one that raises is parked.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Add message filter types by the name clients use.

    When: once, at broker start, before any store opens. Runs: on the pull path.
    Errors: a type name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_allocations(registry: AllocationRegistry) -> None:
    """Add queue allocation strategies by name.

    When: once, in clients and at broker start. Runs: at each rebalance.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_transactions(registry: TransactionRegistry) -> None:
    """Offer transaction services by name; without one a transactional send is refused with a sentence.

    When: once, at broker start.
    Errors: a name offered twice raises PluginConflict.
    """


@hookspec
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Add changes to messages before they are stored.

    When: once, at broker start. Runs: a plain call per message, by ascending order.
    Errors: an order used twice raises PluginConflict.
    """


@hookspec
def gantry_register_gates(registry: GateRegistry) -> None:
    """Add conditions that an acknowledgement waits for.

    When: once, at broker start. Runs: once per batch of messages.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_guards(registry: GuardRegistry) -> None:
    """Add those who see every request before it is served, and may refuse it.

    When: once, at broker start. Runs: a plain call per request, by ascending order; without one nothing is asked.
    Errors: an order used twice raises PluginConflict.
    """


@hookspec
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Serve request codes, in place of core where that serves them.

    When: once, at broker start. Runs: a plain call per request.
    Errors: a code served twice raises PluginConflict.
    """


@hookspec
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Add background work.

    When: once, at broker start. Runs: between the store's opening and its closing.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_name_servers(registry: NameServerRegistry) -> None:
    """Offer name servers by name, for commands that run one.

    When: once, when such a command starts and at broker start. Runs: in a process of its own, or beside a broker.
    Errors: a name offered twice raises PluginConflict.
    """


@hookspec
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Add commands to the ``gantrymq`` command line.

    When: when the command line starts; import nothing heavy.
    Errors: a name added twice raises PluginConflict.
    """
