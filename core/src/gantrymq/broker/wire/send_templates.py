"""Sends that are alike: what the checks of one came to holds for the others.

A send that differs from an earlier one in its queue, time, id and body alone (`remoting.sends`) passes the same checks
as long as its topic and the settings are the same. So those that came in one read are checked, stored and answered
together. What is worth remembering comes a second time: of sends with a key of their own each nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq import speedups
from gantrymq.broker.sending.prepare import SendPreparation, SendTemplate
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.interfaces import MovedMessage, StoreMessage
from gantrymq.remoting.command import Command
from gantrymq.remoting.sends import SendCommand

__all__ = ["SendTemplateCache"]

MOST_REMEMBERED: Final = 16384  # a client has one for each topic it sends to
MOST_REMEMBERED_BYTES: Final = 16 * 1024 * 1024  # of their headers
MOST_MET: Final = 2 * MOST_REMEMBERED
LEAST_TIDIED: Final = 256  # kinds of sends that came since those of deleted topics were forgotten


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
    """Append the messages of ``asked[start]`` and of those behind it that are like it to *messages*.

    The first that has no body, or a queue id that is not below *queues*, ends it.
    """
    alike = None
    for index in range(start, len(asked)):
        send = asked[index]
        if type(send) is not SendCommand:
            break
        body, queue_id = send.body, send.queue_id
        if alike is None:
            alike = send.alike
        if send.alike != alike or body is None or queue_id >= queues:
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
    _make_messages if speedups.compiled is None else speedups.compiled.MessageMaker(SendCommand, StoreMessage)
)


class SendTemplateCache:
    """What is remembered of the sends that passed."""

    def __init__(self, settings: Settings, topics: TopicTable, preparation: SendPreparation, store_host: bytes) -> None:
        self._settings = settings
        self._topics = topics
        self._preparation = preparation
        self._store_host = store_host
        self._templates: dict[bytes, SendTemplate] = {}  # by what is alike
        self._bytes = 0  # of their headers
        self._tidy_at = LEAST_TIDIED
        self._met: set[int] = set()  # hashes of what came once; where two collide, one is remembered sooner

    def remember(self, send: SendCommand, template: SendTemplate) -> None:
        """Keep what the checks of *send* came to, unless it is the first of its kind."""
        mark = hash(send.alike)
        if mark not in self._met:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            self._met.add(mark)
            return
        if len(self._templates) >= MOST_REMEMBERED or self._bytes > MOST_REMEMBERED_BYTES:
            self._templates.clear()
            self._bytes = 0
        if send.alike not in self._templates:
            self._bytes += len(send.header)
        self._templates[send.alike] = template
        if len(self._templates) >= self._tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        """Forget those whose topic changed or was deleted."""
        get = self._topics.get
        known = {alike: each for alike, each in self._templates.items() if get(each.topic.name) is each.topic}
        self._bytes = self._bytes * len(known) // len(self._templates)  # about
        self._templates = known
        self._tidy_at = 2 * len(known) + LEAST_TIDIED

    def together(self, asked: Sequence[Command], start: int, born_host: bytes) -> list[StoreMessage]:
        """The messages of ``asked[start]`` and those behind it, up to the first whose checks are to be made.

        All are acknowledged alike (WAIT), so that they may be stored as one; where an interceptor sees every message,
        they come one by one. One that a plugin refuses, or that is to be told more, ends it.

        Args:
            asked: requests of one connection.
            start: of the first that is wanted.
            born_host: packed address of the connection's peer.
        """
        known, topics, revision = self._templates, self._topics, self._settings.revision
        messages: list[StoreMessage] = []
        if self._preparation.sees_all:
            asked = asked[: start + 1]
        at = start
        while at < len(asked):
            send = asked[at]
            template = known.get(send.alike) if type(send) is SendCommand else None
            if template is None:
                break
            topic, queues, flags, flag, reconsume_times, property_template, special, template_revision = template
            if template_revision != revision or topics.get(topic.name) is not topic:
                break
            before, after, tags_code, wait_stored = property_template
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
                self._store_host,
                reconsume_times,
                wait_stored,
                messages,
            )
            if len(messages) == at - start:
                break
            if (special or self._preparation.sees_all) and not self._complete(messages, at - start, template):
                break
            at = start + len(messages)
        return messages

    def _complete(self, messages: list[StoreMessage], first: int, template: SendTemplate) -> bool:
        """Let plugins see those from *first* on; False where the rest is cut off, as one is a case of its own."""
        for index in range(first, len(messages)):
            try:
                messages[index] = self._preparation.complete(messages[index], template.topic, template.special)
                if type(messages[index]) is not MovedMessage:
                    continue
            except Exception:  # raised again, and answered, where it is looked at by itself
                pass
            del messages[index:]
            return False
        return True
