"""Reset of a group's offsets: 222, and 220 to the group's members.

With ``useServerSideResetOffset`` (the default) the broker stores the new offsets, and the group's next pull of each
queue gets code 21 (OFFSET_RESET). Otherwise the members are notified and commit the new offsets themselves.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (resetOffset, resetOffsetInner),
broker/.../client/net/Broker2Client.java (resetOffset).
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq.errors import ConsumerNotOnline, GroupNotExist, InvalidParameter, RequestRefused, TopicNotExist
from gantrymq.plugin.headers import ResetOffsetRequest
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.loose_json import Entries, RawJson
from gantrymq.plugin.model import Action, MessageQueue, OffsetReset, Queue, Role, TopicConfig
from gantrymq.plugin.remoting import Command, Connection, LanguageCode, RequestCode, queue_texts, serves
from gantrymq_diagnosis.operators.requests import BrokerRequests

_QUEUES_TOGETHER = 64  # queues to process without yielding


class ResetRequests(BrokerRequests):
    """Handler for resets."""

    @serves(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, action=Action.UPDATE, topic="topic", group="group")
    async def reset(self, asked: Command, connection: Connection) -> Command:
        """222: reset by time (-1: the end), or one queue to an offset; return the new offsets."""
        header = ResetOffsetRequest.from_ext(asked.ext, asked.code)
        here = self._broker.settings.flag("useServerSideResetOffset")
        if here:
            _check_role(self._broker)
        topic = self._broker.topics.get(header.topic)
        if topic is None:
            raise TopicNotExist(f"topic {header.topic} does not exist on this broker; see: gantrymq topic list")
        if here:
            found = await self._here(topic, header)
        else:
            found = await self._at_members(topic, header, in_list_form=asked.language == LanguageCode.CPP)
        return await self._long.make(asked, connection, {"offsetTable": Entries(self._by_queue(topic, found))})

    async def _here(self, topic: TopicConfig, header: ResetOffsetRequest) -> dict[int, int]:
        if self._broker.groups.get(header.group) is None:
            raise GroupNotExist(
                f"consumer group {header.group} does not exist on this broker; see: gantrymq group list"
            )
        wanted = range(topic.read_queues)
        if header.queue_id >= 0:
            if header.queue_id >= topic.read_queues:
                raise InvalidParameter(
                    f"queueId {header.queue_id} is outside topic {topic.name}, with {topic.read_queues} read queues"
                )
            wanted = range(header.queue_id, header.queue_id + 1)
        found, slices = dict[int, int](), self._slices(_QUEUES_TOGETHER)
        for queue_id in wanted:
            given = header.offset if header.queue_id >= 0 else None
            found[queue_id] = await self._target(Queue(topic.name, queue_id), header.timestamp, given)
            await slices.item_done()
        if not found:
            raise RequestRefused(1, f"topic {topic.name} has no queue to reset")
        for queue_id, queue_offset in found.items():
            self._broker.offsets.reset(header.group, Queue(topic.name, queue_id), queue_offset)
            await slices.item_done()
        return found

    async def _target(self, queue: Queue, timestamp: int, given: int | None) -> int:
        if given is None or given == -1:
            return await self._by_time(queue, timestamp)
        bounds = self._broker.store.bounds(queue)
        if not bounds.min_offset <= given <= bounds.max_offset + 1:
            there = f"[{bounds.min_offset}-{bounds.max_offset}] of {queue}"
            raise RequestRefused(1, f"Target offset {given} not in consume queue range {there}")
        return min(given, bounds.max_offset)  # Java also stores max_offset + 1, which makes the lag -1

    async def _by_time(self, queue: Queue, timestamp: int) -> int:
        if timestamp < 0:
            return self._broker.store.bounds(queue).max_offset
        return max(0, await self._broker.messages.offset_at(queue, timestamp))

    async def _at_members(
        self, topic: TopicConfig, header: ResetOffsetRequest, *, in_list_form: bool
    ) -> dict[int, int]:
        """Notify every member; without force, offsets are only lowered."""
        found, slices = dict[int, int](), self._slices(_QUEUES_TOGETHER)
        for queue_id in range(topic.write_queues):
            queue = Queue(topic.name, queue_id)
            committed = self._broker.offsets.committed(header.group, queue)
            if committed is None:
                raise RequestRefused(1, f"THe consumer group <{header.group}> not exist")
            target = await self._by_time(queue, header.timestamp)
            found[queue_id] = target if header.is_force or target < committed else committed
            await slices.item_done()
        online = list(self._broker.clients.consumers(header.group))
        if not online:
            raise ConsumerNotOnline(
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {topic.name} "
                f"Timestamp: {header.timestamp}"
            )
        queues = {
            MessageQueue(topic.name, self._broker.registration.broker_name, at): found[at] for at in sorted(found)
        }
        reset = OffsetReset(topic.name, header.group, header.timestamp, header.is_force, queues, as_list=in_list_form)
        for member in online:
            await member.connection.reset_offsets(reset)
        return found

    def _by_queue(self, topic: TopicConfig, found: dict[int, int]) -> Iterator[tuple[RawJson, int]]:
        text_of = queue_texts(topic.name, self._broker.registration.broker_name)
        for queue_id in sorted(found):
            yield text_of(queue_id), found[queue_id]


def _check_role(broker: Broker) -> None:
    """Check that offsets may be reset here. Raises RequestRefused with RocketMQ's code 1 (resetOffsetInner)."""
    if broker.role.current is not Role.MASTER:
        missing = broker.role.current is Role.ACTING_MASTER
        master = "missing now" if missing else broker.registration.master_address
        raise RequestRefused(
            1, "Can not reset offset in slave broker" + (f"; the master is {master}" if master else "")
        )
