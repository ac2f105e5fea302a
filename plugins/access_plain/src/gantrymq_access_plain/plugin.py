"""Entry point ``access_plain``: the authorizer, its settings, and the requests that manage its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import (
        Authorizer,
        AuthorizerContext,
        AuthorizerRegistry,
        ConfigRegistry,
        ServiceRegistry,
    )
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_access_plain.service import PlainService

_made: list[PlainService] = []  # set by the handler hook for the service hook, which runs after it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_access_plain.settings import SETTINGS

    for setting in SETTINGS:
        registry.add(setting)


@hookimpl
def gantry_register_authorizers(registry: AuthorizerRegistry) -> None:
    """Register the authorizer, which is imported when it is selected."""
    from gantrymq_access_plain.settings import NAME

    def make(context: AuthorizerContext) -> Authorizer:
        from gantrymq_access_plain.authorizer import PlainAuthorizer

        return PlainAuthorizer(context)

    registry.add(NAME, make)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers; each broker has its own object."""
    from gantrymq_access_plain.service import PlainService

    service = PlainService()
    _made[:] = [service]
    for code, handler in service.handlers.items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service of the handlers."""
    for each in _made:
        registry.add(each)
