"""Messages of a client batch in the encoding of its body, which a store can append without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from gantrymq.formats.batch_body import Buffer, decode_batch
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces.store import StoreMessage
from gantrymq.model import properties as props

__all__ = ["MessageBatch"]


class MessageBatch(Sequence[StoreMessage]):
    """Plain messages of one client for one ordinary queue, which are stored in one file (`same_file_as_previous`).

    A store may read `body`, whose entries are plain (`formats.batch_body.plain_entries`), or use the batch like any
    other sequence of messages. The stored properties of a message are those of its entry, a separator if that lacks its
    last one, and `added_properties`.
    """

    __slots__ = (
        "_length",
        "_messages",
        "added_properties",
        "body",
        "born_host",
        "born_timestamp",
        "queue_id",
        "reconsume_times",
        "store_host",
        "sys_flag",
        "tags_code",
        "topic",
        "wait_stored",
    )

    def __init__(
        self,
        length: int,
        topic: str,
        queue_id: int,
        body: Buffer,
        added_properties: bytes,
        tags_code: int | None,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        wait_stored: bool,
    ) -> None:
        """Store the values; see `StoreMessage` for those that are not described here.

        Args:
            length: number of messages, at least one.
            topic: of all messages.
            queue_id: of all messages.
            body: see `formats.batch_body`.
            added_properties: appended to the properties of each message; ASCII without zeros.
            tags_code: of all messages; None if each message has its own tag.
            sys_flag: of all messages.
            born_timestamp: of all messages.
            born_host: of all messages.
            store_host: of all messages.
            reconsume_times: of all messages.
            wait_stored: of all messages.
        """
        self._length = length
        self._messages: list[StoreMessage] | None = None
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self.added_properties = added_properties
        self.tags_code = tags_code
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.wait_stored = wait_stored

    def __len__(self) -> int:
        """Return the number of messages."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> StoreMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoreMessage]: ...
    def __getitem__(self, index: int | slice) -> StoreMessage | list[StoreMessage]:
        """Return a message, or some of them; the first call creates all."""
        if self._messages is None:
            self._messages = self._made()
        return self._messages[index]

    def _made(self) -> list[StoreMessage]:
        found: list[StoreMessage] = []
        for flag, body, own in decode_batch(self.body):
            code = self.tags_code
            found.append(
                StoreMessage(
                    self.topic,
                    self.queue_id,
                    body,
                    (own if not own or own.endswith(b"\x02") else own + b"\x02") + self.added_properties,
                    tags_code(props.decode(own).get(props.TAGS)) if code is None else code,
                    flag,
                    self.sys_flag,
                    self.born_timestamp,
                    self.born_host,
                    self.store_host,
                    self.reconsume_times,
                    0,
                    self.wait_stored,
                    bool(found),
                )
            )
        return found
