"""Queue assignment by the broker, for groups that pull or pop (400), and the request mode of a group (401, 402).

A member that pops gets every queue, as queue -1 of each broker, or its own share and the shares of the next members
(popShareQueueNum). The queues of a topic are those of all brokers in its route, so that all brokers give the same
answer. Plugins register the allocation strategies.

The request mode says whether a group pulls or pops a topic. The table is saved as messageRequestMode.json:

    {"messageRequestModeMap":{TOPIC:{GROUP:{"consumerGroup":..,"mode":"POP","popShareQueueNum":8,"topic":..}}}}

Source: apache/rocketmq broker/.../processor/QueryAssignmentProcessor.java,
broker/.../loadbalance/MessageRequestModeManager.java, remoting/.../body/SetMessageRequestModeRequestBody.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any, Final, NamedTuple

from gantrymq.errors import FormatError, InvalidParameter, NoPermission, RequestRefused, TopicNotExist
from gantrymq.plugin.config_files import load, pretty, save
from gantrymq.plugin.interfaces import AllocationStrategy, Broker
from gantrymq.plugin.loose_json import Entries, Items, number_in, object_in, quote_value, text_in
from gantrymq.plugin.model import Action, MessageQueue, Requirement, Role, requirements
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq.plugin.remoting import (
    Command,
    Connection,
    RequestCode,
    SlicedResponses,
    object_body_of,
    response_to,
    serves,
)

PULL: Final = "PULL"
POP: Final = "POP"
log = logging.getLogger(__name__)
FILE: Final = "messageRequestMode.json"
_BROADCASTING: Final = "BROADCASTING"


class RequestMode(NamedTuple):
    """Request mode of one group for one topic."""

    name: str  # PULL or POP
    share_queues: int = 0  # with POP: number of following members whose queues a member pops too; 0: all queues

    @classmethod
    def from_json(cls, members: dict[Any, Any]) -> RequestMode:
        """Parse a mode from the file, or from the request that sets one.

        Raises:
            FormatError: a member has the wrong type or is out of bounds.
        """
        name = (text_in(members, "mode", "") or PULL).upper()
        if name not in (PULL, POP):
            raise FormatError(
                f"mode {quote_value(name)!r} is neither PULL nor POP; set one with: mqadmin setConsumeMode -m"
            )
        return cls(name, number_in(members, "popShareQueueNum", 0))


class RequestModes:
    """Request modes by topic and group."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[str, RequestMode]] = {}

    def get(self, topic: str, group: str) -> RequestMode | None:
        """Return the mode set for the group, None if none is set."""
        return self._modes.get(topic, {}).get(group)

    def set(self, topic: str, group: str, mode: RequestMode) -> None:
        """Set the mode of the group for the topic."""
        self._modes.setdefault(topic, {})[group] = mode

    def forget(self, topic: str, group: str) -> None:
        """Remove the modes of a deleted topic or group; the other argument is empty."""
        self._modes.pop(topic, None)
        for each, groups in list(self._modes.items()):
            groups.pop(group, None)
            if not groups:
                del self._modes[each]

    @property
    def topics(self) -> Sequence[str]:
        """The topics with a mode of any group."""
        return list(self._modes)

    def of_topic(self, topic: str) -> dict[str, Any]:
        """Return the modes of one topic by group, as in the file."""
        return {
            group: {
                "consumerGroup": group,
                "mode": mode.name,
                "popShareQueueNum": mode.share_queues,
                "topic": topic,
            }
            for group, mode in self._modes[topic].items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the contents of the file and of request 402, with sorted members as in RocketMQ."""
        return {"messageRequestModeMap": {topic: self.of_topic(topic) for topic in self._modes}}

    def copy(self) -> RequestModes:
        """Return an independent copy."""
        copied = RequestModes()
        copied._modes = {topic: dict(groups) for topic, groups in self._modes.items()}
        return copied

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestModes) and self._modes == other._modes

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def load(self, members: dict[Any, Any]) -> None:
        """Load the contents of the file.

        Raises:
            FormatError: a member has the wrong type.
        """
        topics = object_in(members, "messageRequestModeMap") or {}
        for topic in topics:
            groups = object_in(topics, topic) or {}
            for group in groups:
                self.set(str(topic), str(group), RequestMode.from_json(object_in(groups, group) or {}))


def _member(asked: Command) -> Sequence[Requirement]:
    """Access rule of 400: topic and group in the body."""
    return _of_body(asked, Action.SUB)


def _set_mode(asked: Command) -> Sequence[Requirement]:
    """Access rule of 401: topic and group in the body."""
    return _of_body(asked, Action.UPDATE)


def _of_body(asked: Command, action: Action) -> Sequence[Requirement]:
    body = object_body_of(asked)
    return requirements(action, topics=(text_in(body, "topic", ""),), groups=(text_in(body, "consumerGroup", ""),))


class Assignment:
    """Handlers of queue assignments and request modes."""

    def __init__(self, broker: Broker, folder: Any) -> None:
        """*folder*: ``config`` of the store."""
        self._broker = broker
        self._files = broker.world.files
        self._path = folder / FILE
        self._sliced = SlicedResponses(broker.world.clock).make
        self._modes = RequestModes()  # replaced by each change, so that a copy is not needed to read it
        self._saving = asyncio.Lock()
        self._deleted: list[tuple[str, str]] = []  # deleted topics and groups with modes to remove
        self._endings = (
            broker.topics.on_deleted(lambda topic: self._deleted.append((topic, ""))),
            broker.groups.on_deleted(lambda group: self._deleted.append(("", group))),
        )

    def load(self) -> None:
        """Load the saved modes. Raises FormatError if file and backup cannot be read."""
        try:
            self._modes.load(load(self._files, self._path, log.warning) or {})
        except FormatError as error:
            if str(self._path) in str(error):
                raise
            raise FormatError(f"{self._path}: {error}; repair the file, or move it away") from error

    def close(self) -> None:
        """Hear of no more deletions."""
        for end in self._endings:
            end()

    @serves(RequestCode.QUERY_ASSIGNMENT, access=_member)
    async def assign(self, request: Command, connection: Connection) -> Command:
        """Answer request 400: the queues of one member, and its request mode."""
        body = object_body_of(request)
        topic, group, client_id = (text_in(body, name, "") for name in ("topic", "consumerGroup", "clientId"))
        mode = self._modes.get(topic, group) or self._default(topic)
        queues = sorted(await self._broker.registration.cluster_queues(topic))
        if not queues:
            return response_to(request, 0, None, None, b"{}")  # without a list the member keeps its queues
        if body.get("messageModel") != _BROADCASTING and self._broker.settings.flag("serverLoadBalancerEnable"):
            members = sorted({each.client_id for each in self._broker.clients.consumers(group)})
            if not members:
                raise RequestRefused(
                    1,
                    f"no consumer of group {group} is online at this broker; queues are assigned after its first "
                    f"heartbeat, see: gantrymq group clients {quote(group)}",
                )
            strategy = self._broker.allocation(text_in(body, "strategyName", "") or "AVG")
            if mode.name == POP:
                queues = shares(strategy, group, client_id, queues, members, mode.share_queues)
            else:
                queues = strategy.allocate(group, client_id, queues, members)
        found = Items({"messageQueue": each.to_json(), "mode": mode.name} for each in dict.fromkeys(queues))
        return await self._sliced(request, connection, {"messageQueueAssignments": found})

    @serves(RequestCode.SET_MESSAGE_REQUEST_MODE, access=_set_mode)
    async def set_mode(self, request: Command, connection: Connection) -> Command:
        """Answer request 401: set the request mode of a group for a topic; saved before the response is sent.

        As in RocketMQ, a group that does not exist yet is created if groups are created automatically.
        """
        if self._broker.role.current is not Role.MASTER:
            raise RequestRefused(
                1,
                "the request modes of a slave that acts for its master are those of the master; set the mode when the "
                "master is back",
            )
        body = object_body_of(request)
        topic, group = text_in(body, "topic", ""), text_in(body, "consumerGroup", "")
        if topic.startswith(RETRY_PREFIX):
            raise NoPermission(
                f"retry topic is not allowed to set mode: {topic} is read as its group reads; name a topic of producers"
            )
        if self._broker.topics.get(topic) is None:
            raise TopicNotExist(f"topic[{topic}] not exist; create it with: gantrymq topic create -t {quote(topic)}")
        try:
            mode = RequestMode.from_json(body)
        except FormatError as error:
            raise InvalidParameter(str(error)) from None
        self._broker.groups.require(group)
        await self._change(lambda modes: modes.set(topic, group, mode))
        return response_to(request)

    def modes_text(self) -> str:
        """Return the text of messageRequestMode.json."""
        return pretty(self._modes.to_json())

    async def tidy(self) -> None:
        """Remove the modes of deleted topics and groups; a failed save is retried the next time."""
        if not self._deleted:
            return
        deleted, self._deleted = self._deleted, []

        def forget(modes: RequestModes) -> None:
            for each in deleted:
                modes.forget(*each)

        try:
            await self._change(forget)
        except OSError as error:
            self._deleted += deleted
            log.warning("%s cannot be written: %s; it is tried again", self._path, error.strerror or error)

    async def _change(self, change: Callable[[RequestModes], None]) -> None:
        """Apply *change* to a copy of the modes, save it, then use it. Raises OSError."""
        async with self._saving:
            self._modes = await self._broker.world.workers.run(self._changed, self._modes, change)

    def _changed(self, before: RequestModes, change: Callable[[RequestModes], None]) -> RequestModes:
        """Return a changed copy of *before*, saved if it differs. Runs in a thread: there may be thousands of modes."""
        modes = before.copy()
        change(modes)
        if modes != before:
            save(self._files, self._path, pretty(modes.to_json()))
        return modes

    @serves(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, action=Action.GET)
    async def all_modes(self, request: Command, connection: Connection) -> Command:
        """Answer request 402: all request modes by topic and group."""
        modes = self._modes
        topics = Entries((topic, modes.of_topic(topic)) for topic in sorted(modes.topics))
        return await self._sliced(request, connection, {"messageRequestModeMap": topics})

    def _default(self, topic: str) -> RequestMode:
        settings = self._broker.settings
        if topic.startswith(RETRY_PREFIX):
            return RequestMode(PULL)
        return RequestMode(settings.text("defaultMessageRequestMode"), settings.number("defaultPopShareQueueNum"))


def shares(
    strategy: AllocationStrategy,
    group: str,
    client_id: str,
    queues: Sequence[MessageQueue],
    members: Sequence[str],
    share_queues: int,
) -> list[MessageQueue]:
    """Return the queues that one member of a group pops.

    Args:
        queues: queues of the topic, sorted.
        members: client ids, sorted.
        share_queues: number of following members whose queues the member pops too; 0, or all of them, means all queues.
    """
    if share_queues <= 0 or share_queues >= len(members) - 1:
        return [each._replace(queue_id=-1) for each in queues]
    if client_id not in members:
        return []
    at = members.index(client_id)
    if len(members) > len(queues):
        return [queues[at % len(queues)]]
    found: list[MessageQueue] = []
    for step in range(share_queues + 1):
        found += strategy.allocate(group, members[(at + step) % len(members)], queues, members)
    return found
