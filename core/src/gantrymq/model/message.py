"""Messages as applications see them.

Source: apache/rocketmq common/.../message/Message.java, MessageExt.java.
"""

from __future__ import annotations

import attrs

from gantrymq.model import properties as names


@attrs.define
class Message:
    """What an application sends."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | tuple[str, ...] | None = None  # several are joined with one blank
    flag: int = 0
    properties: dict[str, str] = attrs.field(factory=dict)
    wait_stored: bool = True  # False: the broker answers before a synchronous flush

    def all_properties(self) -> dict[str, str]:
        """User properties together with tags, keys and WAIT, in the order they go on the wire."""
        found = dict(self.properties)
        if self.keys:
            found[names.KEYS] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.tags:
            found[names.TAGS] = self.tags
        found.setdefault(names.WAIT, "true" if self.wait_stored else "false")
        return found


@attrs.define
class ReceivedMessage:
    """What an application gets, with where and when it was stored."""

    topic: str
    body: bytes  # decompressed; as it is stored where `body_problem` says that this cannot be done
    properties: dict[str, str]
    flag: int
    queue_id: int
    queue_offset: int
    log_offset: int
    store_size: int  # bytes of the record
    sys_flag: int
    born_timestamp: int  # ms
    born_host: str  # ip:port
    store_timestamp: int  # ms
    store_host: str  # ip:port
    reconsume_times: int
    body_crc: int
    prepared_offset: int
    offset_id: str
    broker_name: str = ""
    body_problem: str = ""  # why the body could not be decompressed, and what would help; else empty

    @property
    def tags(self) -> str | None:
        """The tag, if any."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> str | None:
        """Index keys separated by blanks, if any."""
        return self.properties.get(names.KEYS)

    @property
    def message_id(self) -> str:
        """The client's unique id, or the offset id of a message without one."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_id
