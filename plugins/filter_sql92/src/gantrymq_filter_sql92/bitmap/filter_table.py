"""Groups and the topics they filter, as heartbeats report them; a state machine without clock, files or compiler.

    registered   a new group, a higher version with another expression, or bits of another size: born now
                 a higher version of the same expression: the version is stored; a dead group becomes alive
                 the same version: a dead group becomes alive; a lower version: ignored
                 an expression that does not compile: the group is removed
    gone         the group's last member left, or the group no longer subscribes to the topic: dead now
    cleaned      dead for longer than a time span: removed
    deleted      the group or the topic was deleted: removed
    loaded       groups that were alive are dead since 30 s ago, or since their birth; bits of another size: rejected

Messages get the bits of dead groups as well: such a group may return and read messages stored in the meantime.

consumerFilter.json: the table of filters on disk, in RocketMQ's format.

The file gives the bits in the ext files their meaning. A file that cannot be read is therefore renamed and the table
starts empty: no bits are used, messages are evaluated when they are read, and heartbeats register the groups again.

Source: apache/rocketmq broker/.../filter/ConsumerFilterManager.java.
Source: apache/rocketmq broker/.../filter/ConsumerFilterManager.java (configFilePath, decode, encode).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import broken_of, load, pretty, save
from gantrymq.plugin.model import Subscription
from gantrymq.plugin.world import FileTree
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter, FilterData

MOST_FILTERS: Final = 20_000  # of all topics; further groups are read without bits. RocketMQ has no limit
_MOST_NEW: Final = 16_384  # characters compiled per heartbeat, or one expression; the others wait for the next one
_LOADED_DEAD_MS: Final = 30_000
ByTopic = dict[str, dict[str, FilterData]]
log = logging.getLogger(__name__)
FILE: Final = "consumerFilter.json"


class FilterTable:
    """Filter data by topic and group."""

    def __init__(self, bloom: BloomFilter, type_name: str, compiles: Callable[[str], bool]) -> None:
        """Create an empty table.

        Args:
            type_name: filter type of the expressions to register.
            compiles: return whether an expression is valid.
        """
        self.bloom = bloom
        self.count = 0
        self.changed: set[str] = set()  # topics with bits of a new meaning; cleared by the service
        self.unsaved = False  # whether the table differs from the last snapshot; cleared when it is saved
        self._type_name = type_name
        self._compiles = compiles
        self._by_topic: ByTopic = {}
        self._topics_of: dict[str, set[str]] = {}  # by group

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return a group's filter on a topic."""
        groups = self._by_topic.get(topic)
        return groups.get(group) if groups is not None else None

    def of_topic(self, topic: str) -> Mapping[str, FilterData]:
        """Return the filters on a topic, by group; read-only."""
        return self._by_topic.get(topic, {})

    def expressions(self) -> set[str]:
        """Return the distinct expressions of the type."""
        found = (data for groups in self._by_topic.values() for data in groups.values())
        return {data.expression for data in found if data.type == self._type_name}

    def topics(self) -> list[str]:
        """Return the topics with filters."""
        return list(self._by_topic)

    def register(self, group: str, subscriptions: Iterable[Subscription], now_ms: int) -> None:
        """Apply the subscriptions of a heartbeat; those of other types count as topics the group still reads."""
        wanted = {each.topic: each for each in subscriptions}
        left = _MOST_NEW
        for topic, each in wanted.items():
            if left > 0 and each.type == self._type_name and each.expression:
                left -= len(each.expression) * self._register(topic, group, each, now_ms)
        for topic in self._topics_of.get(group, set()) - wanted.keys():
            self._die(topic, group, now_ms)

    def gone(self, group: str, now_ms: int) -> None:
        """Mark the filters of a group without members as dead."""
        for topic in self._topics_of.get(group, ()):
            self._die(topic, group, now_ms)

    def clean(self, now_ms: int, span_ms: int) -> None:
        """Remove the filters of groups that have been dead for *span_ms*."""
        for topic, groups in list(self._by_topic.items()):
            for data in [data for data in groups.values() if data.dead and now_ms - data.dead_ms >= span_ms]:
                self._forget(topic, data.group)

    def deleted(self, topic: str, group: str) -> None:
        """Remove the filters of a deleted topic or group."""
        for each in list(self._by_topic.get(topic, ())):
            self._forget(topic, each)
        for each in list(self._topics_of.get(group, ())):
            self._forget(each, group)

    def resize(self, bloom: BloomFilter, now_ms: int) -> None:
        """Change the size of the maps: every filter is born again with new bits."""
        if bloom == self.bloom:
            return
        self.bloom = bloom
        for topic, groups in self._by_topic.items():
            for group, data in groups.items():
                dead_ms = now_ms if data.dead else 0
                bits = bloom.bits_of(group, topic)
                groups[group] = attrs.evolve(data, born_ms=now_ms, dead_ms=dead_ms, bits=bits)
            self._note(topic)

    def to_json(self) -> dict[str, Any]:
        """Return the members of consumerFilter.json."""
        return members_of(self.snapshot())

    def snapshot(self) -> ByTopic:
        """Return a copy of the table with the same contents."""
        return {topic: dict(groups) for topic, groups in self._by_topic.items()}

    def load(self, members: Mapping[str, Any], now_ms: int) -> bool:
        """Load the contents of a file. Return False, and load nothing, if its bits are of another size.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: the content is invalid; nothing was loaded.
        """
        loaded: ByTopic = {}
        count = 0
        for topic, entry in (members.get("filterDataByTopic") or {}).items():
            for group, each in (entry.get("groupFilterData") or {}).items():
                data = FilterData.from_json(each, str(topic), str(group))
                if not self.bloom.fits(data.bits):
                    return False
                if data.dead_ms == 0:
                    data = attrs.evolve(data, dead_ms=max(data.born_ms, now_ms - _LOADED_DEAD_MS))
                loaded.setdefault(str(topic), {})[str(group)] = data
                count += 1
        if count > MOST_FILTERS:
            raise ValueError(f"{count} filters, at most {MOST_FILTERS} may be")
        self._by_topic, self.count, self._topics_of = loaded, count, {}
        for topic, groups in loaded.items():
            for group in groups:
                self._topics_of.setdefault(group, set()).add(topic)
        return True

    def _register(self, topic: str, group: str, wanted: Subscription, now_ms: int) -> bool:
        """Return whether the expression had to be compiled."""
        known = self.get(topic, group)
        if known is not None and wanted.version <= known.version:
            if wanted.version == known.version and known.dead:
                self._put(attrs.evolve(known, dead_ms=0))
            return False
        bits = self.bloom.bits_of(group, topic)
        if known is not None and (known.expression, known.type, known.bits) == (wanted.expression, wanted.type, bits):
            self._put(attrs.evolve(known, version=wanted.version, dead_ms=0 if known.dead else known.dead_ms))
            return False
        if not self._compiles(wanted.expression):
            if known is not None:
                self._forget(topic, group)
        elif known is not None or self.count < MOST_FILTERS:
            self.count += known is None
            self._put(FilterData(topic, group, wanted.expression, wanted.type, wanted.version, now_ms, 0, bits))
            self._note(topic)
        return True

    def _die(self, topic: str, group: str, now_ms: int) -> None:
        known = self.get(topic, group)
        if known is not None and not known.dead:
            self._put(attrs.evolve(known, dead_ms=max(now_ms, known.born_ms)))

    def _put(self, data: FilterData) -> None:
        self._by_topic.setdefault(data.topic, {})[data.group] = data
        self._topics_of.setdefault(data.group, set()).add(data.topic)
        self.unsaved = True

    def _forget(self, topic: str, group: str) -> None:
        groups = self._by_topic[topic]
        del groups[group]
        self.count -= 1
        if not groups:
            del self._by_topic[topic]
        topics = self._topics_of[group]
        topics.discard(topic)
        if not topics:
            del self._topics_of[group]
        self._note(topic)

    def _note(self, topic: str) -> None:
        self.changed.add(topic)
        self.unsaved = True


def members_of(by_topic: ByTopic) -> dict[str, Any]:
    """Return the members of consumerFilter.json for a table."""
    return {
        "filterDataByTopic": {
            topic: {"groupFilterData": {group: data.to_json() for group, data in groups.items()}, "topic": topic}
            for topic, groups in by_topic.items()
        }
    }


def load_table(files: FileTree, folder: Path, table: FilterTable, now_ms: int) -> None:
    """Load the file in *folder* into *table*. Runs in a thread.

    Raises:
        OSError: a file exists and cannot be read or renamed.
    """
    path = folder / FILE
    try:
        members = load(files, path, log.warning)
    except FormatError as error:
        if files.stat(path) is not None:
            _put_aside(files, path)
        log.warning("%s; SQL92 consumers are read without bits until they register again", error)
        return
    if members is None:
        return
    try:
        if not table.load(members, now_ms):
            log.warning(
                "%s holds bits of another size than expectConsumerNumUseFilter and maxErrorRateOfBloomFilter make: "
                "they are not believed, SQL92 consumers register anew",
                path,
            )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        log.warning(
            "%s makes no sense (%r); kept as %s, SQL92 consumers are read without bits until they register again",
            *(path, error, _put_aside(files, path)),
        )


def _put_aside(files: FileTree, path: Path) -> str:
    """Rename an unusable file and return its new name."""
    aside = broken_of(path)
    files.rename(path, aside)
    files.sync_dir(path.parent)
    return aside.name


def save_table(files: FileTree, folder: Path, table: ByTopic) -> None:
    """Write *table* durably. Runs in a thread.

    Raises:
        OSError: writing failed.
    """
    save(files, folder / FILE, pretty(members_of(table)))
