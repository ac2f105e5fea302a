"""Cached text of consumerOffset.json, so that a save formats only the changed members.

The text equals ``pretty(ConsumerOffsetsFile(...).to_json())``, except that a member that moves to the other table is
appended to it. The cache holds one formatted text per member "topic@group" of the tables; groupTopicMap is formatted
again when members were added or removed. A broker reports changes with `OffsetTextCache.change`, because it modifies
its table in place.

Not thread-safe. With tens of thousands of queues a save is done by one worker thread in the background.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gantrymq.formats.config.consumer_offsets import is_of_light_group, topics_by_group
from gantrymq.formats.config.json_tables import in_order
from gantrymq.formats.config.pretty import FormattedText, format_value, pretty
from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion
from gantrymq.model.light_queues import LIGHT_QUEUE_ID

__all__ = ["OffsetTextCache"]


class OffsetTextCache:
    """Cached member texts of one file."""

    def __init__(self, kept: Mapping[str, Any] | None = None, *, light: bool = False) -> None:
        """Create an empty cache.

        Args:
            kept: unknown members of the file.
            light: the file is lmqConsumerOffset.json, with a separate table for light groups.
        """
        self._kept = dict(kept or {})
        self._light = light
        self._texts: dict[str, str] = {}  # members of offsetTable by "topic@group"
        self._light_texts: dict[str, str] = {}  # members of lmqOffsetTable; each key is in one of the two
        self._by_group: FormattedText | None = None  # groupTopicMap, None if outdated

    def change(self, gone: Iterable[str], changed: Mapping[str, Mapping[int, int]]) -> None:
        """Apply changes: remove the keys *gone*, then set the offsets by queue id of the *changed* keys, in order."""
        for key in gone:
            self._remove(key)
        for key, queues in changed.items():
            if self._light and is_of_light_group(key, queues):
                self._put(key, f"{_name(key)}{queues[LIGHT_QUEUE_ID]}", self._light_texts, self._texts)
            else:
                self._put(key, _member(key, queues), self._texts, self._light_texts)

    def text(self, version: DataVersion) -> str:
        """Return the text of the file."""
        if self._by_group is None:
            self._by_group = format_value(topics_by_group(self._texts), level=1)
        known: dict[str, Any] = {
            "dataVersion": version.to_json(),
            "groupTopicMap": self._by_group,
            "offsetTable": _table(self._texts),
        }
        if self._light:
            known["lmqOffsetTable"] = _table(self._light_texts)
        return pretty(in_order(known, self._kept))

    def _put(self, key: str, text: str, into: dict[str, str], other: dict[str, str]) -> None:
        if key not in into:
            self._by_group = None
            other.pop(key, None)
        into[key] = text

    def _remove(self, key: str) -> None:
        if self._texts.pop(key, None) is not None:
            self._by_group = None
        self._light_texts.pop(key, None)


def _name(key: str) -> str:
    return f"\n\t\t{dumps(key).decode()}:"


def _member(key: str, queues: Mapping[int, int]) -> str:
    """Format an object with integer keys like `pretty`: on one line, closing brace on the next."""
    if not queues:
        return _name(key) + "{}"
    inner = ",".join([f"{queue_id}:{queue_offset}" for queue_id, queue_offset in queues.items()])
    return f"{_name(key)}{{{inner}\n\t\t}}"


def _table(texts: Mapping[str, str]) -> Any:
    return FormattedText("{" + ",".join(texts.values()) + "\n\t}") if texts else {}
