"""All hooks for plugins. This file is the contract; it contains no logic.

A hook is called once at startup and registers objects; the hot path calls the objects, never a hook. The order between
plugins is undefined: settings select implementations by name. An exception of a hook stops the start of a server with
an error that names the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:  # commands of plugins start 15 ms faster without importing the interfaces
    from gantrymq.interfaces import (
        AllocationRegistry,
        AuthorizerRegistry,
        CommandRegistry,
        ConfigRegistry,
        DispatcherRegistry,
        FilterRegistry,
        GateRegistry,
        InterceptorRegistry,
        NameServerRegistry,
        ProtocolRegistry,
        ServiceRegistry,
        StoreRegistry,
        TransactionRegistry,
    )
    from gantrymq.remoting.serving import HandlerRegistry

PROJECT = "gantrymq"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare settings.

    When: before all other hooks, in servers and commands, before the settings are read.
    Errors: a key declared twice raises PluginConflict.
    """


@hookspec
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register message stores by name.

    When: once, at broker start. Runs: the selected store is the hot path.
    Errors: a name registered twice raises PluginConflict.
    """


@hookspec
def gantry_register_dispatchers(registry: DispatcherRegistry) -> None:
    """Add dispatchers, which process the commit log.

    When: once, at broker start. Runs: after publication, in batches; a dispatcher that raises is suspended.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Add message filter types by the name that clients use.

    When: once, at broker start, before any store opens. Runs: on the pull path.
    Errors: a type name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_allocations(registry: AllocationRegistry) -> None:
    """Add queue allocation strategies by name.

    When: once, in clients and at broker start. Runs: at each rebalance.
    Errors: a name added twice, or AVG, which core has, raises PluginConflict.
    """


@hookspec
def gantry_register_transactions(registry: TransactionRegistry) -> None:
    """Register transaction services by name. Without one, transactional sends are refused with an error.

    When: once, at broker start.
    Errors: a name registered twice raises PluginConflict.
    """


@hookspec
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Add interceptors, which change messages before they are stored.

    When: once, at broker start. Runs: a plain call per message, in ascending order.
    Errors: an order used twice raises PluginConflict.
    """


@hookspec
def gantry_register_gates(registry: GateRegistry) -> None:
    """Add gates, the conditions for acknowledging messages.

    When: once, at broker start. Runs: once per batch of messages.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_authorizers(registry: AuthorizerRegistry) -> None:
    """Register authorizers by name. They identify clients and decide what these may do.

    When: once, at broker start. Runs: once per connection and access key, and once per decision; both are cached.
    Errors: a name registered twice raises PluginConflict.
    """


@hookspec
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Serve request codes; a plugin's handler replaces core's.

    When: once, at broker start. Runs: a plain call per request.
    Errors: a code served twice raises PluginConflict.
    """


@hookspec
def gantry_register_protocols(registry: ProtocolRegistry) -> None:
    """Register protocols of listeners besides remoting, by the name that the setting ``listeners`` has.

    When: once, at broker start; import the protocol in its factory. Runs: in a broker with such a listener, for each
    connection.
    Errors: a name registered twice, or remoting, raises PluginConflict.
    """


@hookspec
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Add background services.

    When: once, at broker start. Runs: while the store is open.
    Errors: a name added twice raises PluginConflict.
    """


@hookspec
def gantry_register_name_servers(registry: NameServerRegistry) -> None:
    """Register name servers by name, for the commands that run one.

    When: once, when such a command starts and at broker start. Runs: in its own process or in that of a broker.
    Errors: a name registered twice raises PluginConflict.
    """


@hookspec
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Add commands to the ``gantrymq`` command line.

    When: at the start of the command line; avoid slow imports.
    Errors: a name added twice raises PluginConflict.
    """
