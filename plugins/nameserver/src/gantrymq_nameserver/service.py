"""The name server without sockets: answers requests.

Source: apache/rocketmq namesrv/.../processor/{DefaultRequestProcessor,ClientRequestProcessor}.java (processRequest),
remoting/.../netty/NettyRemotingAbstract.java (checks before a handler).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gantrymq.errors import ConnectionLost, GantryError, RequestNotSupported, RequestRefused, ServerFault
from gantrymq.plugin.model import Action, Requirement, Resource, ResourceType
from gantrymq.plugin.remoting import (
    VERSION_5_3_1,
    AccessRule,
    Command,
    RequestCode,
    ResponseCode,
    access_rule,
    handlers_of,
    request_name,
    response_to,
)
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import World
from gantrymq_nameserver.broker_requests import BrokerRequests
from gantrymq_nameserver.handlers import ROUTES, Answer, Handler, in_cluster
from gantrymq_nameserver.kv import KvConfig
from gantrymq_nameserver.membership import Membership
from gantrymq_nameserver.notices import MinBrokerIdChange
from gantrymq_nameserver.operator_requests import OperatorRequests
from gantrymq_nameserver.route_requests import RouteRequests
from gantrymq_nameserver.tables import RouteTables
from gantrymq_nameserver.wrong_port import wrong_port_message

log = logging.getLogger(__name__)


class NameService:
    """State of one name server, and handlers of all its requests.

    Args:
        notify: sends a notice to brokers (request 905).
    """

    def __init__(self, world: World, settings: Settings, notify: Callable[[MinBrokerIdChange], None]) -> None:
        self.tables = RouteTables()
        self.kv = KvConfig(world, Path(settings.text("kvConfigPath")))
        self.membership = Membership(self.tables, settings, world.clock, notify)
        self._settings = settings
        self.stopping = False  # newer clients are answered with GO_AWAY
        families = (
            BrokerRequests(self.tables, self.membership, self.kv, settings, world),
            RouteRequests(self.tables, self.kv, settings, world.clock),
            OperatorRequests(world, self.kv, settings),
        )
        self._handlers: dict[int, Handler] = {}
        for family in families:
            self._handlers |= handlers_of(family)
        self._rules = {code: access_rule(handler) or in_cluster() for code, handler in self._handlers.items()}

    def access_rule(self, request: Command) -> AccessRule | None:
        """Return what the sender of *request* must be allowed; None if everybody may send it.

        Routes, with the lists of topics and brokers, are open without ``routeAccess=true``.
        """
        if request.code in ROUTES and not self._settings.flag("routeAccess"):
            return None
        rule = self._rules.get(request.code)
        return self._registration_rule if request.code == RequestCode.REGISTER_BROKER else rule

    def _registration_rule(self, request: Command) -> Sequence[Requirement]:
        """Require permission on the cluster that has the broker name now, too: its addresses would be replaced."""
        ext = request.ext or {}
        found = list(in_cluster(field="clusterName")(request))
        known = self.tables.brokers.get(ext.get("brokerName", ""))
        if known is not None and known.cluster != ext.get("clusterName"):
            found.append(Requirement((Action.UPDATE,), Resource(ResourceType.CLUSTER, known.cluster)))
        return found

    def answer(
        self,
        request: Command,
        connection: object,
        limited: Callable[[Awaitable[Command]], Awaitable[Command]] | None = None,
    ) -> Answer:
        """Return the response to *request*, or an awaitable of it if a worker is needed.

        Never raises: a GantryError becomes its code and text, any other error is logged and becomes code 1. The
        awaitable raises ConnectionLost if *limited* does.

        Args:
            connection: the request's connection; a registering broker is bound to it by identity.
            limited: waits for a turn before it awaits the creation of a long response.
        """
        try:
            answer = self._handler(request)(request, connection)
        except Exception as error:
            return refusal(request, error)
        return answer if isinstance(answer, Command) else _settle(request, answer, limited)

    def _handler(self, request: Command) -> Handler:
        handler = self._handlers.get(request.code)
        if handler is None:
            raise RequestNotSupported(wrong_port_message(request.code) or f" request type {request.code} not supported")
        if self.stopping and request.version > VERSION_5_3_1:
            raise RequestRefused(ResponseCode.GO_AWAY, "please go away: the name server is stopping")
        return handler


async def _settle(
    request: Command,
    answer: Awaitable[Command],
    limited: Callable[[Awaitable[Command]], Awaitable[Command]] | None,
) -> Command:
    # The limiter gets *answer* itself, which it closes if the connection is closed before its turn.
    try:
        return await (answer if limited is None else limited(answer))
    except ConnectionLost:
        raise
    except Exception as error:
        return refusal(request, error)


def refusal(request: Command, error: Exception) -> Command:
    """Return the response for *error*: its code and text, or code 1 for what is a bug."""
    if isinstance(error, GantryError):
        log.debug("%s refused with %d: %s", request_name(request.code), error.response_code, error)
        return response_to(request, error.response_code, str(error))
    log.error("%s failed", request_name(request.code), exc_info=error)
    return response_to(request, ResponseCode.SYSTEM_ERROR, str(ServerFault()))
