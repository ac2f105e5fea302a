"""All of the broker that a plugin may touch, and the small objects that plugins register with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gantrymq.config import Settings
from gantrymq.formats.record import RecordView
from gantrymq.interfaces.figures import Figures
from gantrymq.interfaces.store import Bounds, GetLimit, GetResult, MessageStore, PutResult, StoreMessage
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.command import Command
from gantrymq.world import World


class Connection(Protocol):
    """A peer, able to be answered and asked; in the broker it is `gantrymq.remoting.connection.Connection`."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address of the other side."""

    @property
    def address(self) -> str:
        """The same as ``host:port``."""

    @property
    def peer_packed_host(self) -> bytes:
        """The same as records hold it."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Answer a request (or the one with that opaque) with a command or an encoded frame."""

    def reply_parts(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write an encoded frame that is in several buffers; they must not change until they are written."""

    def flush(self) -> None:
        """Write what was handed over now, instead of at the end of the loop's turn."""

    def oneway(self, command: Command) -> None:
        """Send a request that gets no answer."""

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and wait. Raises CallTimeout or ConnectionLost."""

    def close(self) -> None:
        """Close after what was handed over is written."""


Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
"""Serves one request code: returns the response, an awaitable of it, or None (awaited or not) when the response comes
later or came already through ``connection.reply`` (or never, for oneway requests). A GantryError that is raised becomes
the response with its code and text."""


class Interceptor(Protocol):
    """Changes a message before it is stored."""

    order: int  # interceptors run by ascending order; two equal numbers conflict

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """The message to store. Raises RequestError to refuse it."""


class Gate(Protocol):
    """Something an acknowledgement waits for besides the append (AckGate)."""

    name: str

    def passed(self, log_offset: int) -> Awaitable[None]:
        """Done when everything before *log_offset* may be acknowledged and shown to consumers."""


class Service(Protocol):
    """Work in the background for as long as the broker runs."""

    name: str

    async def start(self, broker: Broker) -> None:
        """Called once, after the store is open and before requests are served."""

    async def stop(self) -> None:
        """Called once, before the store closes."""


class Broker(Protocol):
    """What a plugin sees of the broker."""

    @property
    def world(self) -> World:
        """Clock, network and files."""

    @property
    def settings(self) -> Settings:
        """The values in force."""

    @property
    def store(self) -> MessageStore:
        """The open store."""

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates; returns once it is acknowledged and visible."""

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without a filter."""

    def read(self, log_offset: int) -> RecordView | None:
        """The record at *log_offset*."""

    def bounds(self, queue: Queue) -> Bounds:
        """Offsets of a queue."""

    def committed(self, group: str, queue: Queue) -> int | None:
        """Committed queue offset of a group, None when it has none."""

    def commit(self, group: str, queue: Queue, queue_offset: int) -> None:
        """Set the committed queue offset of a group.

        Raises:
            InvalidParameter: it is below 0, or behind the end of the queue.
        """

    def topic(self, name: str) -> TopicConfig | None:
        """A topic's configuration."""

    def topics(self) -> Mapping[str, TopicConfig]:
        """Every topic; read-only."""

    def create_topic(self, topic: TopicConfig) -> None:
        """Create or replace a topic, persist it and tell the name servers."""

    def group(self, name: str) -> GroupConfig | None:
        """A group's configuration."""

    def connections(self, group: str) -> Sequence[Connection]:
        """Connections of a producer or consumer group, to call its clients back."""

    def on_arrival(self, callback: Callable[[Queue, int], Any]) -> None:
        """Call *callback* with queue and new maximum offset after each publication. What it raises is logged."""

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* after each batch of messages that passed its gates and is visible.

        It gets how many messages the batch had, and the seconds from their append to their acknowledgement. What it
        raises is logged.
        """

    def figures(self) -> Figures:
        """What the broker counts of itself, as it is now; for monitoring, not for every message."""

    def state_folder(self, plugin: str) -> Path:
        """A folder of the store where *plugin* may keep its files; made on first use."""
