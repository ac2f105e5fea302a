"""The service ``access``: serves requests about users and policies, which are imported when the first one arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from gantrymq.plugin.model import Role
from gantrymq.plugin.remoting import Handler, RequestCode, handlers_of, lazy_handlers

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import Broker

ACCESS_REPORT: Final = cast(RequestCode, 65041)  # GantryMQ's own requests
CLOSE_CLIENTS: Final = cast(RequestCode, 65042)

REQUESTS: Final = (
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_GET_USER,
    RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
    RequestCode.AUTH_GET_ACL,
    RequestCode.AUTH_LIST_ACL,
    ACCESS_REPORT,
    CLOSE_CLIENTS,
)


class AccessService:
    """Knows the broker whose requests are served."""

    name = "access"
    roles = frozenset(Role)

    def __init__(self) -> None:
        """Create the service and the handlers of one broker."""
        self.broker: Broker | None = None
        self.handlers = lazy_handlers(REQUESTS, self._load_requests)

    async def start(self, broker: Broker) -> None:
        """Serve the requests of *broker*."""
        self.broker = broker

    async def stop(self) -> None:
        """Serve no more requests."""
        self.broker = None

    def _load_requests(self) -> dict[int, Handler]:
        from gantrymq_access.requests import AccessRequests

        return handlers_of(AccessRequests(self))
