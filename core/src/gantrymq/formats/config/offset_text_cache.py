"""The text of consumerOffset.json in pieces, so that a save lays out what changed and joins the rest.

The text is ``pretty(ConsumerOffsetsFile(...).to_json())``, letter for letter, but that a member which moves to the
other table goes to its end. A piece is a member of one of the tables, "topic@group", on the level where it stands;
groupTopicMap is laid out again when a member came or went. Changes are told, because a broker changes its table in
place.

One text is used by one thread at a time: with tens of thousands of queues a save is the work of one that nobody waits
for.
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
    """The pieces of one file."""

    def __init__(self, kept: Mapping[str, Any] | None = None, *, light: bool = False) -> None:
        """No offsets yet.

        Args:
            kept: members that we do not know.
            light: the file is lmqConsumerOffset.json, with a table of its own for light groups.
        """
        self._kept = dict(kept or {})
        self._light = light
        self._texts: dict[str, str] = {}  # "topic@group" to its member of offsetTable
        self._light_texts: dict[str, str] = {}  # and of lmqOffsetTable; a key stands in one of them
        self._by_group: FormattedText | None = None  # groupTopicMap, None when it has to be made again

    def change(self, gone: Iterable[str], changed: Mapping[str, Mapping[int, int]]) -> None:
        """Take over changes: first what went, then offsets by queue id of what came or changed, in their order."""
        for key in gone:
            self._remove(key)
        for key, queues in changed.items():
            if self._light and is_of_light_group(key, queues):
                self._put(key, f"{_name(key)}{queues[LIGHT_QUEUE_ID]}", self._light_texts, self._texts)
            else:
                self._put(key, _member(key, queues), self._texts, self._light_texts)

    def text(self, version: DataVersion) -> str:
        """The whole file."""
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
    """As `pretty` lays out an object with integer keys: all on one line, the brace on its own."""
    if not queues:
        return _name(key) + "{}"
    inner = ",".join([f"{queue_id}:{queue_offset}" for queue_id, queue_offset in queues.items()])
    return f"{_name(key)}{{{inner}\n\t\t}}"


def _table(texts: Mapping[str, str]) -> Any:
    return FormattedText("{" + ",".join(texts.values()) + "\n\t}") if texts else {}
