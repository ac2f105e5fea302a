"""Queues handed out by the broker: 400 (my queues), 401, 402 (how a group reads a topic).

A group pulls; reading by POP is refused. The queues of a topic are those of every broker in its route, so that clients
of several brokers get one answer; the strategies are those that plugins register. Modes are forgotten at stop, which
loses nothing while PULL is the only one.

Source: apache/rocketmq broker/.../processor/QueryAssignmentProcessor.java.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gantrymq.broker.parts import Parts
from gantrymq.broker.tables.clients import BROADCASTING
from gantrymq.broker.wire.answers import object_body_of, ok, queue_json, with_json
from gantrymq.errors import InvalidParameter, NoPermission, RefusedWith
from gantrymq.interfaces import AllocationStrategy, Connection
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.serving import serves

PULL, POP = "PULL", "POP"

QueuesOf = Callable[[str], Awaitable[Sequence[MessageQueue]]]


class AssignmentRequests:
    """Serves assignments and modes."""

    def __init__(self, parts: Parts) -> None:
        self._clients = parts.clients
        self._allocations = parts.plugins.allocations
        self._strategies: dict[str, AllocationStrategy] = {}  # those that were asked for
        self._queues_of = parts.cluster_queues.readable
        self._modes: dict[str, dict[str, dict[str, Any]]] = {}  # topic -> group -> what was set

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
            queues = self._strategy(str(body.get("strategyName") or "AVG")).allocate(group, client_id, queues, members)
        found = [{"messageQueue": queue_json(queue), "mode": PULL} for queue in queues]
        return with_json(asked, {"messageQueueAssignments": found})

    @serves(RequestCode.SET_MESSAGE_REQUEST_MODE)
    def set_mode(self, asked: Command, connection: Connection) -> Command:
        """401: PULL, the only mode there is."""
        body = object_body_of(asked)
        topic, group = str(body.get("topic") or ""), str(body.get("consumerGroup") or "")
        mode = str(body.get("mode") or PULL).upper()
        if topic.startswith(names.RETRY_PREFIX):
            raise NoPermission("retry topic is not allowed to set mode")
        if mode == POP:
            raise RefusedWith(1, "mode POP: pop consumption is not built in this version; groups read by PULL")
        if mode != PULL:
            raise InvalidParameter(f"mode {mode!r} is neither PULL nor POP")
        share = body.get("popShareQueueNum")
        self._modes.setdefault(topic, {})[group] = {
            "consumerGroup": group,
            "mode": PULL,
            "popShareQueueNum": share if isinstance(share, int) else 0,
            "topic": topic,
        }
        return ok(asked)

    @serves(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    def all_modes(self, asked: Command, connection: Connection) -> Command:
        """402: every mode that was set, by topic and group."""
        return with_json(asked, {"messageRequestModeMap": self._modes})

    def _strategy(self, name: str) -> AllocationStrategy:
        """The strategy, with its default settings."""
        found = self._strategies.get(name)
        if found is None:
            if name not in self._allocations:
                known = ", ".join(sorted(self._allocations)) or "none"
                raise RefusedWith(
                    1,
                    f"no installed plugin offers the allocation strategy {name} (there is {known}); install one with: "
                    "pip install gantrymq-allocate",
                )
            found = self._strategies[name] = self._allocations[name]({})
        return found
