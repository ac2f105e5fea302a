"""Cache of check results for sends that are alike.

A send that differs from an earlier one only in queue, time, id and body (`remoting.sends`) passes the same checks as
long as topic and settings do not change. Such sends of one read are stored and acknowledged together without checks. A
result is cached at the second occurrence, so sends with distinct KEYS are not cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from gantrymq import speedups
from gantrymq.broker.access import AccessControl
from gantrymq.broker.sending.prepare import Sender, SendPreparation, SendTemplate
from gantrymq.broker.sending.transactions import Stored
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.interfaces import ClientChannel, MovedMessage, StoreMessage
from gantrymq.model.access import topic_resource
from gantrymq.remoting.command import Command
from gantrymq.remoting.sends import SendCommand, is_signed
from gantrymq.remoting.signatures import ACCESS_KEY

MOST_REMEMBERED: Final = 16384  # templates; a client needs one for each topic that it sends to
MOST_REMEMBERED_BYTES: Final = 16 * 1024 * 1024  # total size of their headers
MOST_MET: Final = 2 * MOST_REMEMBERED
LEAST_TIDIED: Final = 256  # new templates between removals of those for deleted topics


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
    secrets: Sequence[bytes] | None,
    messages: list[StoreMessage],
) -> None:
    """Append the messages of ``asked[start]`` and of the following sends that are alike to *messages*.

    Stop at the first send without a body, with a queue id that is not below *queues*, or, unless *secrets* is None,
    not signed with one of them.
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
        if secrets is not None and not is_signed(send, secrets):
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
    _make_messages
    if speedups.compiled is None
    else speedups.compiled.MessageMaker(SendCommand, StoreMessage, is_signed)
)


class SendTemplateCache:
    """Templates of sends that passed the checks."""

    def __init__(
        self,
        settings: Settings,
        topics: TopicTable,
        preparation: SendPreparation,
        access: AccessControl,
        store_host: bytes,
    ) -> None:
        self._settings = settings
        self._access = access
        self._topics = topics
        self._preparation = preparation
        self._store_host = store_host
        self._templates: dict[bytes, SendTemplate] = {}  # by `SendCommand.alike`
        self._bytes = 0  # total size of their headers
        self._tidy_at = LEAST_TIDIED
        self._met: set[int] = set()  # hashes of sends that occurred once; a collision only caches one of them early

    def remember(self, send: SendCommand, template: SendTemplate, client: ClientChannel) -> None:
        """Cache the template of *send*, unless this is its first occurrence."""
        mark = hash(send.alike)
        if mark not in self._met:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            self._met.add(mark)
            return
        if len(self._templates) >= MOST_REMEMBERED or self._bytes > MOST_REMEMBERED_BYTES:
            self._templates.clear()
            self._bytes = 0
        if client.principal is not None:
            sender = Sender((send.ext or {}).get(ACCESS_KEY, ""), send.code, topic_resource(template.topic.name))
            template = template._replace(sender=sender)
        if send.alike not in self._templates:
            self._bytes += len(send.header)
        self._templates[send.alike] = template
        if len(self._templates) >= self._tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        """Remove templates of changed or deleted topics."""
        get = self._topics.get
        known = {alike: each for alike, each in self._templates.items() if get(each.topic.name) is each.topic}
        self._bytes = self._bytes * len(known) // len(self._templates)  # an estimate
        self._templates = known
        self._tidy_at = 2 * len(known) + LEAST_TIDIED

    def together(
        self, asked: Sequence[Command], start: int, client: ClientChannel, stored: list[tuple[slice, Stored]]
    ) -> list[StoreMessage]:
        """Return the messages of ``asked[start]`` and the following sends, up to the first one that must be checked.

        All have the same WAIT property, so that they can be stored together. If an interceptor is called for every
        message, return only one. Stop before a message that a plugin refuses or adds response fields to.

        Args:
            asked: requests of one connection.
            start: index of the first send.
            client: sender of the requests.
            stored: gets what must be called with results of messages once they are stored, and which ones these are.
        """
        known, topics, revision = self._templates, self._topics, self._settings.revision
        messages: list[StoreMessage] = []
        born_host, access = client.peer_packed_host, self._access
        if self._preparation.sees_all:
            asked = asked[: start + 1]
        at, secrets = start, None
        while at < len(asked):
            send = asked[at]
            template = known.get(send.alike) if type(send) is SendCommand else None
            if template is None:
                break
            topic, queues, flags, flag, reconsume_times, property_template, special, template_revision, sender, _ = (
                template
            )
            if access.active:
                if sender is None or not access.may_send(client, *sender):
                    break
                secrets = access.secrets(sender.access_key)
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
                secrets,
                messages,
            )
            if len(messages) == at - start:
                break
            if (special or self._preparation.sees_all) and not self._complete(
                messages, at - start, template, asked[at:], stored
            ):
                break
            at = start + len(messages)
        return messages

    def _complete(
        self,
        messages: list[StoreMessage],
        first: int,
        template: SendTemplate,
        asked: Sequence[Command],
        stored: list[tuple[slice, Stored]],
    ) -> bool:
        """Apply plugins to *messages* from *first* on, those of *asked*.

        Return False if the rest was removed for separate checks.
        """
        if template.halves:
            halves = messages[first:]
            sends = cast(Sequence[SendCommand], asked[: len(halves)])
            try:
                together = self._preparation.complete_halves(halves, [send.unique_id for send in sends])
            except Exception:  # raised again when the first of them is checked separately
                del messages[first:]
                return False
            if together is not None:
                if template.sender is None:  # else their decisions are checked one by one
                    stored.append((slice(first, len(messages)), together))
                return True
        for index in range(first, len(messages)):
            try:
                messages[index] = self._preparation.complete(messages[index], template.topic, template.special)
                if type(messages[index]) is not MovedMessage:
                    continue
            except Exception:  # raised again when the send is checked separately
                pass
            del messages[index:]
            return False
        return True
