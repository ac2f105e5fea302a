"""Sends whose header has a known shape: what the checks of one came to holds for the others.

A send that differs from an earlier one in its queue, time, id and body alone passes the same checks as long as its
topic and the settings are the same. So those that came in one read are checked, stored and answered together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq import speedups
from gantrymq.broker.sending.stored_properties import Plan
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.interfaces import Interceptor, StoreMessage
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.command import Command
from gantrymq.remoting.send_shapes import MOST_SHAPES, SendShape, ShapedSend

__all__ = ["Passed", "SendsAlike"]

MOST_REMEMBERED: Final = 2 * MOST_SHAPES


class Passed(NamedTuple):
    """What the checks of one shape of sends came to."""

    topic: TopicConfig
    queues: int  # queue ids below this one are taken
    flags: int
    flag: int
    reconsume_times: int
    plan: Plan
    revision: int  # of the settings


def _make_messages(
    asked: Sequence[Command],
    start: int,
    queues: int,
    before: bytes,
    after: bytes,
    topic: str,
    tags_code: int,
    flag: int,
    sys_flag: int,
    born_host: bytes,
    store_host: bytes,
    reconsume_times: int,
    wait_stored: bool,
    messages: list[StoreMessage],
) -> None:
    """Append the messages of ``asked[start]`` and of those behind it that have its shape to *messages*.

    The first that has no body, or a queue id that is not below *queues*, ends it. Budget: 0.9 us each.
    """
    shape = None
    for index in range(start, len(asked)):
        send = asked[index]
        if type(send) is not ShapedSend:
            break
        body, queue_id = send.body, send.queue_id
        if shape is None:
            shape = send.shape
        if send.shape is not shape or body is None or queue_id >= queues:
            break
        messages.append(
            StoreMessage(
                topic,
                queue_id,
                body,
                before + send.unique_id + after,
                tags_code,
                flag,
                sys_flag,
                send.born_timestamp,
                born_host,
                store_host,
                reconsume_times,
                0,
                wait_stored,
            )
        )


make_messages = (
    _make_messages if speedups.compiled is None else speedups.compiled.MessageMaker(ShapedSend, StoreMessage)
)


class SendsAlike:
    """What is remembered of the shapes that passed."""

    def __init__(
        self, settings: Settings, topics: TopicTable, interceptors: Sequence[Interceptor], store_host: bytes
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._interceptors = tuple(interceptors)
        self._store_host = store_host
        self._passed: dict[SendShape, Passed] = {}

    def remember(self, shape: SendShape, passed: Passed) -> None:
        """Keep what the checks of *shape* came to."""
        if len(self._passed) >= MOST_REMEMBERED:
            self._passed.clear()
        self._passed[shape] = passed

    def together(self, asked: Sequence[Command], start: int, born_host: bytes) -> list[StoreMessage]:
        """The messages of ``asked[start]`` and those behind it, up to the first whose checks are to be made.

        All are acknowledged alike (WAIT), so that they may be stored as one; after an interceptor that is asked of
        each, they come one by one. Budget: 1.2 us a message.

        Args:
            asked: requests of one connection.
            start: of the first that is wanted.
            born_host: packed address of the connection's peer.
        """
        known, topics, revision = self._passed, self._topics, self._settings.revision
        store_host = self._store_host
        messages: list[StoreMessage] = []
        if self._interceptors:
            asked = asked[: start + 1]
        at = start
        while at < len(asked):
            send = asked[at]
            if type(send) is not ShapedSend:
                break
            passed = known.get(send.shape)
            if passed is None:
                break
            topic, queues, flags, flag, reconsume_times, plan, passed_revision = passed
            if passed_revision != revision or topics.get(topic.name) is not topic:
                break
            before, after, tags_code, wait_stored = plan
            if messages and wait_stored is not messages[0].wait_stored:
                break
            make_messages(
                asked,
                at,
                queues,
                before,
                after,
                topic.name,
                tags_code,
                flag,
                flags,
                born_host,
                store_host,
                reconsume_times,
                wait_stored,
                messages,
            )
            if len(messages) == at - start:
                break
            at = start + len(messages)
        for interceptor in self._interceptors:
            messages = [interceptor(message) for message in messages]
        return messages
