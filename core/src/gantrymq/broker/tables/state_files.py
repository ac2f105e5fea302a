"""Persistence of the tables: topics.json, subscriptionGroup.json and consumerOffset.json, in a `StateStore`.

Topics and groups are saved as soon as they change, concurrent changes together. A send that created its topic waits for
the save, so that no acknowledged message lacks its topic. Offsets are saved periodically and at shutdown. A plugin may
have to confirm a save of topics and groups before it counts, because replicas need the change, too.

The event loop copies the values to save; a thread encodes and writes them, because encoding tens of thousands of queues
would block the loop for too long. The texts of topics and offsets that have not changed since the last save are reused.
The files are read in a thread, too. A file that cannot be written is retried every second.

Source: apache/rocketmq common/.../ConfigManager.java and its subclasses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import attrs

from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.broker.tables.state_writer import MOST_UNSAVED_S, StateWriter
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import FormatError, GantryError, StoreError
from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    LIGHT_CONSUMER_OFFSETS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    OffsetTextCache,
    TopicsFile,
    pretty,
)
from gantrymq.interfaces import StateStore
from gantrymq.world import Timer, World
from gantrymq.world.clock import TimeSlices
from gantrymq.world.workers import resolve_future

log = logging.getLogger(__name__)

RETRY_S = 1.0
TURN_OFFSETS = 4000  # topic@group entries to copy without yielding

_CONFIGS = frozenset({TOPICS, GROUPS})

Kept = TypeVar("Kept")
Saved = Callable[[GantryError | None], None]
Confirm = Callable[[], Awaitable[None]]


class StateFiles:
    """Loads the tables at startup and saves their changes."""

    def __init__(
        self,
        world: World,
        store: StateStore,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        *,
        light: bool = False,
    ) -> None:
        """*light*: use lmqConsumerOffset.json for offsets."""
        self._light = light
        self._offsets_name = LIGHT_CONSUMER_OFFSETS if light else CONSUMER_OFFSETS
        self._world = world
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._topics_file = TopicsFile()
        self._groups_file = GroupsFile()
        self._offset_texts = OffsetTextCache()
        self._dirty: set[str] = set()  # files for the next save
        self._others: dict[str, str] = {}  # texts of services' files to save
        self._writes = StateWriter(world, store)
        self._unsaved_topics: set[str] = set()  # changed since the last copy for their file was made
        self._topics_in_write: set[str] = set()  # changed before that copy, which is not on disk yet
        self._waiting: list[tuple[frozenset[str], Saved]] = []  # callbacks with the files they wait for
        self._saving: asyncio.Task[None] | None = None
        self._confirm: Confirm | None = None
        self._unconfirmed = False  # the last save of topics and groups was not confirmed
        self._retry: Timer | None = None

    @property
    def failing(self) -> Mapping[str, str]:
        """Files whose last write failed: name to error sentence."""
        return self._writes.failing

    def commits_refusal(self) -> str | None:
        """Return the reason why offset commits are refused, or None."""
        if self._writes.failing_s(self._offsets_name) <= MOST_UNSAVED_S:
            return None
        problem = self._writes.failing[self._offsets_name]
        return (
            f"{problem}; for {MOST_UNSAVED_S:g} s commits were kept in memory, more could be lost; the write is retried"
        )

    async def load(self) -> None:
        """Read the files into the tables, and save later changes of the tables.

        Raises:
            FormatError: a file and its backup are not JSON, or a file has members of the wrong type.
            StoreError: a file cannot be read.
        """
        await self._world.workers.run(self._load_all)
        self._topics.on_change(lambda topic: self.topics_changed(topic.name))
        self._groups.on_change(self.groups_changed)

    def _load_all(self) -> None:
        """Read the files; runs in a thread, while nothing else uses the tables."""
        topics = self._topics_file = self._read(TOPICS, TopicsFile.from_json)
        groups = self._groups_file = self._read(GROUPS, GroupsFile.from_json)
        offsets = self._read_offsets()
        self._topics.load(topics.topics, topics.version)
        self._groups.load(groups.groups, groups.forbidden, groups.version)
        self._offsets.load(offsets.offsets, offsets.version)
        self._offset_texts = OffsetTextCache(offsets.kept, light=self._light)

    def _read_offsets(self) -> ConsumerOffsetsFile:
        """Read the offsets; if light queues were enabled only now, those of consumerOffset.json."""
        try:
            found = self._store.has(LIGHT_CONSUMER_OFFSETS)
        except OSError as error:
            raise self._unreadable(LIGHT_CONSUMER_OFFSETS, error) from error
        if self._light and found:
            return self._read(LIGHT_CONSUMER_OFFSETS, partial(ConsumerOffsetsFile.from_json, light=True))
        if found:
            log.warning(
                "%s is not read while enableLmq=false: groups continue from the offsets in %s",
                *(self._store.place(LIGHT_CONSUMER_OFFSETS), CONSUMER_OFFSETS),
            )
        return self._read(CONSUMER_OFFSETS, ConsumerOffsetsFile.from_json)

    def _read(self, name: str, from_json: Callable[[dict[Any, Any]], Kept]) -> Kept:
        place = self._store.place(name)
        try:
            return from_json(dict(self._store.load(name) or {}))
        except FormatError as error:
            if place.removesuffix(name) in str(error):
                raise
            where = place.removesuffix(name).rstrip("/")
            raise FormatError(f"{where}: {error}; repair the file, or put {name}.bak in its place") from error
        except OSError as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: OSError) -> StoreError:
        place = self._store.place(name)
        return StoreError(f"{place} cannot be read: {error.strerror or error}; repair it or move it away")

    def topics_changed(self, name: str) -> None:
        """Save topics.json after a topic was added, changed or deleted."""
        self._unsaved_topics.add(name)
        self._mark(TOPICS)

    def groups_changed(self) -> None:
        """Save subscriptionGroup.json after a group was added, changed or deleted."""
        self._mark(GROUPS)

    def keep(self, name: str, text: str) -> None:
        """Save the file of a service that does not run."""
        self._others[name] = text
        self._mark(name)

    def confirm_changes(self, confirm: Confirm | None) -> None:
        """Count saves of topics and groups after *confirm*, which raises a GantryError otherwise; None: no more."""
        self._confirm = confirm

    def is_saved(self, topic: str) -> bool:
        """Return whether the file has the current state of this topic, and that is confirmed."""
        return topic not in self._unsaved_topics and topic not in self._topics_in_write

    def when_saved(self, done: Saved, *, offsets: bool = False) -> None:
        """Call ``done(error)`` once all changes of topics and groups so far are on disk or failed to be written.

        With *offsets*, this includes committed offsets. Failed writes are retried immediately.
        """
        if self._saving is None:
            for name in sorted(self._to_retry()):
                self._mark(name)
        if not self._dirty and self._saving is None:
            done(None)
        else:
            wanted = _CONFIGS | {self._offsets_name, *self._others} if offsets else _CONFIGS
            self._waiting.append((wanted, done))

    async def saved(self, *, offsets: bool = False) -> None:
        """Wait like `when_saved`.

        Raises:
            StoreError: a file could not be written.
            GantryError: the change is not confirmed, see `confirm_changes`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        settle = resolve_future(future)
        self.when_saved(lambda error: settle(None, error), offsets=offsets)
        await future

    def offsets_due(self) -> None:
        """Start to write the offset file if offsets changed; called periodically."""
        if self._offsets.dirty:
            self._mark(self._offsets_name)

    async def close(self) -> None:
        """Write all files; errors are logged."""
        if self._retry is not None:
            self._retry.cancel()
        for name in (TOPICS, GROUPS, self._offsets_name):
            self._mark(name)
        with contextlib.suppress(GantryError):  # already logged
            await self.saved(offsets=True)
        if self._retry is not None:
            self._retry.cancel()

    # --- saving -----------------------------------------------------------------------------------------------------

    def _mark(self, name: str) -> None:
        self._dirty.add(name)
        if self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save_all())

    async def _save_all(self) -> None:
        try:
            while self._dirty or self._waiting:  # both may grow during a save
                await self._save_once()
        finally:
            self._saving = None

    async def _save_once(self) -> None:
        waiting, self._waiting = self._waiting, []
        dirty, self._dirty = self._dirty, set()
        if waiting:
            dirty |= self._to_retry()
        if TOPICS in dirty:
            self._topics_in_write |= self._unsaved_topics
            self._unsaved_topics = set()
        problems: dict[str, GantryError] = {}
        for name in sorted(dirty):
            failed = await self._writes.write(name, self._text_to_make(name))
            if failed is not None:
                problems[name] = failed
                self._offsets.dirty = self._offsets.dirty or name == self._offsets_name
            else:
                self._others.pop(name, None)
        if self._confirm is not None and dirty & _CONFIGS and not _CONFIGS & problems.keys():
            await self._confirm_configs(self._confirm, problems)
        if TOPICS not in problems and TOPICS not in self._to_retry():
            self._topics_in_write.clear()
        if self._to_retry() and self._retry is None:
            self._retry = self._world.clock.call_later(RETRY_S, self._try_again)
        for names, done in waiting:
            done(next((problems[name] for name in sorted(names & problems.keys())), None))

    async def _confirm_configs(self, confirm: Confirm, problems: dict[str, GantryError]) -> None:
        self._unconfirmed = True
        try:
            await confirm()
        except Exception as error:
            if not isinstance(error, GantryError):
                log.exception("a change of topics and groups could not be confirmed")
                error = StoreError(f"the change could not be confirmed: {error!r}")
            problems.update(dict.fromkeys(_CONFIGS, error))
        else:
            self._unconfirmed = False

    def _to_retry(self) -> set[str]:
        """Return the files that were not written, or whose changes are not confirmed."""
        return {*self.failing, *(_CONFIGS if self._unconfirmed else ())}

    async def _text_to_make(self, name: str) -> Callable[[], str]:
        """Copy the current state of a file. Return a function that encodes it in a thread."""
        if name in self._others:
            text = self._others[name]
            return lambda: text
        if name == TOPICS:
            topics_file = self._topics_file
            topics_file.topics, topics_file.version = dict(self._topics.view), attrs.evolve(self._topics.version)
            return topics_file.to_text
        if name == GROUPS:
            groups_file = self._groups_file
            groups_file.groups, groups_file.version = dict(self._groups.view), attrs.evolve(self._groups.version)
            groups_file.forbidden = {group: dict(topics) for group, topics in self._groups.forbidden.items()}
            return lambda: pretty(groups_file.to_json())
        texts, version = self._offset_texts, attrs.evolve(self._offsets.version)
        gone, changed = self._offsets.take_changes()
        copies, slices = dict[str, dict[int, int]](), TimeSlices(self._world.clock, TURN_OFFSETS)
        for key, queues in changed:
            copies[key] = queues
            await slices.item_done()

        def make() -> str:
            texts.change(gone, copies)
            return texts.text(version)

        return make

    def _try_again(self) -> None:
        self._retry = None
        for name in sorted(self._to_retry()):
            self._mark(name)
