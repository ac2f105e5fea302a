"""The service ``access_plain``: serves requests about plain_acl.yml, which are imported when the first one arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq.plugin.model import Role
from gantrymq.plugin.remoting import Handler, RequestCode, handlers_of, lazy_handlers

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import Broker

REQUESTS: Final = (
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
)


class PlainService:
    """Knows the broker whose requests are served."""

    name = "access_plain"
    roles = frozenset(Role)  # the files of a replica are its own

    def __init__(self) -> None:
        """Create the service and the handlers of one broker."""
        self.broker: Broker | None = None
        self.handlers = lazy_handlers(REQUESTS, self._load_requests)

    async def start(self, broker: Broker) -> None:
        """Serve the requests with the authorizer of *broker*."""
        self.broker = broker

    async def stop(self) -> None:
        """Refuse further requests."""
        self.broker = None

    def _load_requests(self) -> dict[int, Handler]:
        from gantrymq_access_plain.requests import PlainRequests

        return handlers_of(PlainRequests(self))
