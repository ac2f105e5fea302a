"""Entry point ``access``: the authorizer ``acl``, its settings, requests and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import (
        Authorizer,
        AuthorizerContext,
        AuthorizerRegistry,
        CommandRegistry,
        ConfigRegistry,
        ServiceRegistry,
    )
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_access.service import AccessService

COMMANDS = {
    "user": ("user:user", "Create, change, list and delete the users of a cluster with access control."),
    "acl": ("acl:acl", "Grant rights to users, and show and delete them."),
    "client": ("client:client", "End the connections of users."),
    "access": ("access:access", "Explain what users may do, and why."),
}
"""The words after ``gantrymq``, with the command's location below `gantrymq_access.commands` and its description."""


_of_this_load: list[AccessService] = []  # handlers come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_access.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_authorizers(registry: AuthorizerRegistry) -> None:
    """Register the authorizer, which is imported when it is selected."""
    from gantrymq_access.settings import AUTHORIZER

    def make(context: AuthorizerContext) -> Authorizer:
        from gantrymq_access.authorizer import AclAuthorizer

        return AclAuthorizer(context)

    registry.add(AUTHORIZER, make)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests about users and policies."""
    from gantrymq_access.service import AccessService

    _of_this_load[:] = [AccessService()]
    for code, handler in _of_this_load[0].handlers.items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service of the handlers."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register the commands, which are imported when they are used."""
    for words, (place, purpose) in COMMANDS.items():
        registry.add_imported(words, f"gantrymq_access.commands.{place}", purpose)
