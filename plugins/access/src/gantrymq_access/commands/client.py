"""``gantrymq client``: the connections of users."""

from __future__ import annotations

from typing import Final

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.commands import CommandGroup
from gantrymq_access.administration import UserRequest, user_of
from gantrymq_access.commands.options import at_each, places_of, show_rows, user_named
from gantrymq_access.service import CLOSE_CLIENTS
from gantrymq_admin.commands.options import admin_command, served_by, where_options

_CLOSED: Final = "closed"


@click.group(cls=CommandGroup)
def client() -> None:
    """End the connections of users at a cluster with access control."""


@client.command()
@user_named()
@where_options
@admin_command
async def close(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str) -> None:
    """Close the connections of a user within a second. Clients connect again, unless the user is disabled.

    A user who is disabled or deleted loses its connections without this command.
    """
    places = await places_of(admin, cluster, broker)

    async def at(address: str) -> str:
        if await user_of(admin, address, name) is None:
            raise ClientError(f"there is no user {name}; 'gantrymq user list' shows the users")
        with served_by("gantrymq-access", address, "closes no connections of users"):
            await admin.request(address, CLOSE_CLIENTS, UserRequest(username=name))
        return _CLOSED

    show_rows(await at_each(places, at), {"user": name}, output)
