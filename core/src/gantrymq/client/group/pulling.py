"""Pulls of one process queue, one after the other, within the limits of the settings.

Source: apache/rocketmq client/.../impl/consumer/DefaultMQPushConsumerImpl.java (pullMessage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gantrymq.client.calls.credentials import AccessDenied
from gantrymq.client.calls.decoding import parse_tags
from gantrymq.client.errors import FilterRefused
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.reading.pull_result import PullResult, PullStatus, read_pull_reply
from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.model.properties import RETRY_TOPIC
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting.codes import ResponseCode

logger = logging.getLogger("gantrymq.client")

_HOLD_MS: Final = 15_000  # how long a broker may suspend a pull; RocketMQ's BROKER_SUSPEND_MAX_TIME_MILLIS
RETRY_S: Final = 1.0  # after a failed pull, and while paused
_FLOW_CONTROL_S: Final = 0.02  # after FLOW_CONTROL; PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
_MIB: Final = 1 << 20


class QueuePuller:
    """Pulls for one member; call `run` once for each process queue."""

    def __init__(self, member: GroupMember, on_offset_moved: Callable[[ProcessQueue, int], object]) -> None:
        """Create the puller of *member*.

        *on_offset_moved* is called with a queue whose requested offset no longer exists, and the offset to continue at.
        """
        self._member = member
        self._on_offset_moved = on_offset_moved
        self._admitted = set[str]()  # topics of which a pull has succeeded

    async def run(self, pq: ProcessQueue) -> None:
        """Pull messages of *pq* until it is dropped."""
        while (wait_s := await self._wait_to_pull(pq)) is not None:
            if wait_s:
                await self._member.instance.world.clock.sleep(wait_s)
                continue
            try:
                result = await self._pull(pq)
            except GantryError as problem:
                if isinstance(problem, AccessDenied | FilterRefused) and pq.queue.topic not in self._admitted:
                    self._member.deliveries.refuse(problem)
                    return
                busy = isinstance(problem, BrokerRefused) and problem.response_code == ResponseCode.FLOW_CONTROL
                if not busy:
                    doing = f"pulling {pq.queue.topic} for {self._member.group}"
                    self._member.instance.outages.failed(doing, problem)
                await self._member.instance.world.clock.sleep(_FLOW_CONTROL_S if busy else RETRY_S)
                continue
            self._admitted.add(pq.queue.topic)
            if not self._accept(pq, result):
                return
            if result.messages and self._member.settings.pull_pause_s:
                await self._member.instance.world.clock.sleep(self._member.settings.pull_pause_s)

    def _accept(self, pq: ProcessQueue, result: PullResult) -> bool:
        """Add the pulled messages to *pq*. Return False if pulling must stop."""
        if pq.dropped:
            return False
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._log_move(pq, result)
            self._on_offset_moved(pq, result.next_offset)
            return False
        if pq.queue.topic == self._member.retry_topic:
            for message in result.messages:
                message.topic = self._member.instance.unwrap_name(message.properties.get(RETRY_TOPIC)) or message.topic
        pq.put(result.messages, result.next_offset)
        self._member.deliveries.offer(pq)
        return True

    def _log_move(self, pq: ProcessQueue, result: PullResult) -> None:
        """Log why the queue continues elsewhere: its offset was reset at the broker, or does not exist."""
        if result.min_offset <= pq.next_offset <= result.max_offset:
            words = "the offset of %s in %s was reset, from %d to %d"
            logger.info(words, self._member.group, pq.queue, pq.next_offset, result.next_offset)
        else:
            words = "%s has no offset %d; %s continues at %d"
            logger.warning(words, pq.queue, pq.next_offset, self._member.group, result.next_offset)

    async def _wait_to_pull(self, pq: ProcessQueue) -> float | None:
        """Wait until the queue is confirmed and has free capacity.

        Return the seconds after which to call again, 0 to pull now, or None if the queue was dropped.
        """
        member = self._member
        if member.is_paused(pq.queue):
            return RETRY_S
        while not pq.dropped and (pq.unconfirmed or self._full(pq)):
            pq.changed.clear()
            pq.pull_blocked = True
            try:
                await pq.changed.wait()
            finally:
                pq.pull_blocked = False
                pq.last_pull_s = member.instance.world.clock.monotonic()
        if pq.dropped:
            return None
        return RETRY_S if member.locking and pq.lock_expired(member.instance.world.clock.monotonic()) else 0.0

    def _full(self, pq: ProcessQueue) -> bool:
        settings = self._member.settings
        max_messages, max_mib = settings.max_queue_messages, settings.max_queue_mib
        queues = max(1, len(self._member.process_queues))
        if settings.max_topic_messages is not None:
            max_messages = max(1, settings.max_topic_messages // queues)
        if settings.max_topic_mib is not None:
            max_mib = max(1, settings.max_topic_mib // queues)
        if pq.count > max_messages or pq.bytes // _MIB > max_mib:
            return True
        return not settings.orderly and pq.span > settings.max_span

    async def _pull(self, pq: ProcessQueue) -> PullResult:
        member, queue = self._member, pq.queue
        pq.last_pull_s = member.instance.world.clock.monotonic()
        subscription = member.subscriptions.get(queue.topic) or Subscription(queue.topic)
        silent = member.settings.broadcasting or member.settings.orderly or not member.auto_commit
        commit = 0 if silent else pq.commit_offset
        if commit:
            member.offset_store.note_commit(queue, commit)
        offset = pq.next_offset
        reply, address = await member.pulls.pull(
            queue, offset, subscription, max_count=member.settings.pull_batch, suspend_ms=_HOLD_MS, commit=commit
        )
        tags = parse_tags(subscription.expression) if subscription.type == TAG else frozenset[str]()
        check, unwrap = member.settings.check_crcs, member.instance.unwrap
        result = read_pull_reply(reply, address, queue.broker_name, tags, offset, unwrap, check_crcs=check)
        member.pulls.note(queue, result)
        return result
