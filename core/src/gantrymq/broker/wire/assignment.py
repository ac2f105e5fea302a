"""Queues handed out by the broker to members that pull: 400, 402. A plugin that knows other modes serves them instead.

The queues of a topic are those of every broker in its route, so that clients of several brokers get one answer; the
strategies are those that plugins register.

Source: apache/rocketmq broker/.../processor/QueryAssignmentProcessor.java.
"""

from __future__ import annotations

from gantrymq.broker.parts import Parts
from gantrymq.broker.tables.clients import BROADCASTING
from gantrymq.broker.wire.answers import object_body_of, queue_json, with_json
from gantrymq.errors import RefusedWith
from gantrymq.interfaces import Connection
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.serving import serves


class AssignmentRequests:
    """Serves assignments."""

    def __init__(self, parts: Parts) -> None:
        self._clients = parts.clients
        self._strategies = parts.strategies
        self._queues_of = parts.cluster_queues.readable

    @serves(RequestCode.QUERY_ASSIGNMENT)
    async def assign(self, asked: Command, connection: Connection) -> Command:
        """400: the queues of one member."""
        body = object_body_of(asked)
        topic, group, client_id = (str(body.get(name) or "") for name in ("topic", "consumerGroup", "clientId"))
        queues = sorted(await self._queues_of(topic))
        if queues and body.get("messageModel") != BROADCASTING:
            online = self._clients.consumer_group(group)
            members = sorted(set(online.client_ids())) if online is not None else []
            if not members:
                raise RefusedWith(1, f"no consumer of group {group} is online")
            strategy = self._strategies.named(str(body.get("strategyName") or "AVG"))
            queues = strategy.allocate(group, client_id, queues, members)
        found = [{"messageQueue": queue_json(queue), "mode": "PULL"} for queue in queues]
        return with_json(asked, {"messageQueueAssignments": found})

    @serves(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    def all_modes(self, asked: Command, connection: Connection) -> Command:
        """402: no mode was set."""
        return with_json(asked, {"messageRequestModeMap": {}})
