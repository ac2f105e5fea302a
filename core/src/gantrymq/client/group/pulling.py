"""The pulls of one held queue, one after the other, within the limits of the settings.

Source: apache/rocketmq client/.../impl/consumer/DefaultMQPushConsumerImpl.java (pullMessage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gantrymq.client.credentials import AccessDenied
from gantrymq.client.decoding import parse_tags
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.pull_result import PullResult, PullStatus, read_pull_reply
from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.model.properties import RETRY_TOPIC
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting.codes import ResponseCode

__all__ = ["Pulling"]

logger = logging.getLogger("gantrymq.client")

HOLD_MS: Final = 15_000  # how long a broker may hold a pull
AGAIN_S: Final = 1.0  # after a pull that failed, and while paused
FLOW_CONTROL_S: Final = 0.02  # after a broker said that it has too much to do
_MIB: Final = 1 << 20


class Pulling:
    """Pulls for one member; `run` once for each queue."""

    def __init__(self, member: Membership, moved: Callable[[HeldQueue, int], object]) -> None:
        """*moved* hears of a queue that has no such offset any more, and where it goes on."""
        self._member = member
        self._moved = moved
        self._let_in = False  # whether a pull was served

    async def run(self, held: HeldQueue) -> None:
        """Pull *held* until it is dropped."""
        while (wait_s := await self._may_pull(held)) is not None:
            if wait_s:
                await self._member.instance.world.clock.sleep(wait_s)
                continue
            try:
                result = await self._pull(held)
            except GantryError as problem:
                if isinstance(problem, AccessDenied) and not self._let_in:
                    self._member.handing.refuse(problem)
                    return
                busy = isinstance(problem, BrokerRefused) and problem.response_code == ResponseCode.FLOW_CONTROL
                if not busy:
                    doing = f"pulling {held.queue.topic} for {self._member.group}"
                    self._member.instance.outages.failed(doing, problem)
                await self._member.instance.world.clock.sleep(FLOW_CONTROL_S if busy else AGAIN_S)
                continue
            self._let_in = True
            if not self._taken(held, result):
                return
            if result.messages and self._member.settings.pull_pause_s:
                await self._member.instance.world.clock.sleep(self._member.settings.pull_pause_s)

    def _taken(self, held: HeldQueue, result: PullResult) -> bool:
        """Keep what was found. False: there are to be no more pulls."""
        if held.dropped:
            return False
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._moved(held, result.next_offset)
            return False
        if held.queue.topic == self._member.retry_topic:
            for message in result.messages:
                message.topic = self._member.instance.unwrapped(message.properties.get(RETRY_TOPIC)) or message.topic
        held.put(result.messages, result.next_offset)
        self._member.handing.offer(held)
        return True

    async def _may_pull(self, held: HeldQueue) -> float | None:
        """Wait until there is room and the queue is not cut off.

        Returns seconds after which to ask again, 0 to pull now, None never.
        """
        member = self._member
        if member.pausing(held.queue):
            return AGAIN_S
        while not held.dropped and (held.cut_off or self._full(held)):
            held.room.clear()
            held.full = True
            try:
                await held.room.wait()
            finally:
                held.full = False
                held.pulled_s = member.instance.world.clock.monotonic()
        if held.dropped:
            return None
        return AGAIN_S if member.locking and held.lock_expired(member.instance.world.clock.monotonic()) else 0.0

    def _full(self, held: HeldQueue) -> bool:
        settings = self._member.settings
        most, most_mib = settings.max_queue_messages, settings.max_queue_mib
        queues = max(1, len(self._member.held))
        if settings.max_topic_messages is not None:
            most = max(1, settings.max_topic_messages // queues)
        if settings.max_topic_mib is not None:
            most_mib = max(1, settings.max_topic_mib // queues)
        if held.count > most or held.bytes // _MIB > most_mib:
            return True
        return not settings.orderly and held.span > settings.max_span

    async def _pull(self, held: HeldQueue) -> PullResult:
        member, queue = self._member, held.queue
        held.pulled_s = member.instance.world.clock.monotonic()
        wanted = member.subscriptions.get(queue.topic) or Subscription(queue.topic)
        silent = member.settings.broadcasting or member.settings.orderly or not member.commits
        commit = 0 if silent else held.progress
        if commit:
            member.progress.sending(queue, commit)
        asked = held.next_offset
        reply, address = await member.pulls.pull(
            queue, asked, wanted, max_count=member.settings.pull_batch, suspend_ms=HOLD_MS, commit=commit
        )
        tags = parse_tags(wanted.expression) if wanted.type == TAG else frozenset[str]()
        check, unwrap = member.settings.check_crcs, member.instance.unwrap
        result = read_pull_reply(reply, address, queue.broker_name, tags, asked, unwrap, check_crcs=check)
        member.pulls.note(queue, result)
        return result
