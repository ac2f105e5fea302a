"""Shared parts of request handlers: their type, and the JSON dialect of bodies.

Source: apache/rocketmq namesrv/.../processor/ClientRequestProcessor.java (which clients read standard JSON).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from gantrymq.errors import RequestError, RequestRefused
from gantrymq.plugin.model import Action, Requirement, Resource, ResourceType, requirements
from gantrymq.plugin.network import DEFAULT_LISTENER
from gantrymq.plugin.remoting import VERSION_4_9_4, AccessRule, Command, RequestCode, body_of

Answer = Command | Awaitable[Command]
Handler = Callable[[Command, object], Answer]
"""Handles a request and its connection. A raised GantryError becomes the response's code and remark."""


ROUTES: Final = frozenset(  # what clients need to find brokers
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    }
)


def in_cluster(action: Action = Action.UPDATE, field: str = "") -> AccessRule:
    """Return the access rule of a request that needs *action* on the cluster that the header *field* names.

    Without a field, or if it is empty, that is the cluster of the name server, `brokerClusterName`.
    """

    def rule(asked: Command) -> Sequence[Requirement]:
        name = (asked.ext or {}).get(field, "")
        return [Requirement((action,), Resource(ResourceType.CLUSTER, name))] if name else requirements(action)

    return rule


def listener_of(connection: object) -> str:
    """Return the name of the listener that accepted *connection*."""
    return str(getattr(connection, "listener", DEFAULT_LISTENER))


def wants_standard_json(request: Command, accepts_only_standard: bool | None) -> bool:
    """Return whether a route must be strict JSON: newer clients expect it, others request it in the header."""
    return request.version >= VERSION_4_9_4 or bool(accepts_only_standard)


def read_object(request: Command, what: str) -> dict[str, Any]:
    """Return the JSON object in the body of *request*.

    Raises:
        RequestError: the body is not an object; *what* names the expected content.
    """
    try:
        members = body_of(request)
    except RequestRefused as error:
        raise RequestError(f"the body is no {what}: {error}") from error
    if not isinstance(members, dict):
        raise RequestError(f"the body is no {what}: expected a JSON object, got {request.payload[:40]!r}")
    return members
