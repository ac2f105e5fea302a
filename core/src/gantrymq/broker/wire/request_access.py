"""Access control of requests: who sent each of them, and whether the sender may do what its handler states."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from gantrymq.broker.access import AccessControl
from gantrymq.errors import GantryError, ServerFault
from gantrymq.model.access import Principal
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import AccessRule
from gantrymq.remoting.signatures import ACCESS_KEY, SignedRequest

log = logging.getLogger(__name__)

_IDENTIFIED: Final = "identified"  # key of a connection's notes: a request that waited, and its principal or an error


class RequestAccess:
    """Access control of the requests of one server."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access
        self._identifications: set[asyncio.Task[None]] = set()

    def admitted(self, asked: Command, connection: Connection, rule: AccessRule | None) -> bool:
        """Check a request; False if its sender is not identified yet, and the connection is released when it is.

        *rule* returns what the sender must be allowed; None for requests without a handler.

        Raises:
            GantryError: the request is refused.
        """
        access = self._access
        principal = access.known(connection, (asked.ext or {}).get(ACCESS_KEY, ""), asked.code)
        if principal is None:
            waited, found = connection.notes.pop(_IDENTIFIED, (None, None))
            if waited is not asked:
                found = access.identify(SignedRequest(asked), connection)
            if isinstance(found, GantryError):
                raise found
            if found is not None and not isinstance(found, Principal):
                identification = asyncio.ensure_future(self._identify(asked, connection, found))
                self._identifications.add(identification)
                identification.add_done_callback(self._identifications.discard)
                return False
            principal = found
        connection.principal = principal
        if rule is not None:
            access.check_all(principal, rule(asked))
        return True

    async def close(self) -> None:
        """Refuse the requests whose sender is not identified yet."""
        for identification in self._identifications:
            identification.cancel()
        if self._identifications:
            await asyncio.wait(list(self._identifications))

    async def _identify(self, asked: Command, connection: Connection, principal: Awaitable[Principal]) -> None:
        found: Principal | GantryError
        try:
            found = await principal
        except GantryError as error:
            found = error
        except (Exception, asyncio.CancelledError):  # an authorizer may raise the second one, too
            log.exception("%s: authentication failed", connection.address)
            found = ServerFault()
        connection.notes[_IDENTIFIED] = asked, found
        connection.release()
