"""Events between two samples: brokers, elected masters, settings and groups that changed.

The first sample of a process finds groups that the file does not know, and nothing else. A broker is gone if
it does not answer in two samples in a row, or is not registered any more; a group is silent if it had members and has
none in two samples in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import is_system
from gantrymq_console.data.nameservers import broker_settings
from gantrymq_console.history.reading import Mark
from gantrymq_console.history.sampling import Sample

_SEEN: Final = 2  # samples in a row
SETTINGS_MS: Final = 60_000
_SETTINGS_S: Final = 3.0
_MOST_OF_SAMPLE: Final = 200  # marks; of further ones of one sample nothing is kept


class Events:
    """Compares each sample with the ones before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._away: dict[str, int] = {}  # samples in a row in which a broker was away
        self._present: set[str] = set()  # brokers that were there in this process
        self._masters: dict[str, tuple[str, int | None]] = {}  # address and epoch of masters by broker name
        self._alone: dict[str, int] = {}  # samples in a row in which a group had no member
        self._active: set[str] = set()  # groups with members
        self._groups: set[str] | None = None  # None: no sample so far
        self._settings: dict[str, dict[str, str]] = {}  # by title of the broker
        self._asked_ms: int | None = None  # monotonic

    def knows_groups(self, names: set[str]) -> None:
        """Take the groups that were there before this process, so that others are new."""
        self._groups = names or None

    async def found(self, sample: Sample) -> list[Mark]:
        """Return what happened between the sample before and this one."""
        marks = [*self._of_brokers(sample), *self._of_masters(sample), *self._of_groups(sample)]
        marks += await self._of_settings(sample)
        return marks[:_MOST_OF_SAMPLE]

    def _of_brokers(self, sample: Sample) -> Iterator[Mark]:
        known = {each.title for each in sample.brokers}
        for each in sample.brokers:
            title = each.title
            if each.answers and each.registered:
                if self._away.pop(title, 0) >= _SEEN:
                    yield Mark(sample.at_ms, "broker_back", "broker", title)
                self._present.add(title)
            elif title in self._present:
                self._away[title] = self._away.get(title, 0) + 1
                if self._away[title] == _SEEN:
                    yield Mark(sample.at_ms, "broker_gone", "broker", title, {"problem": each.problem})
        for title in self._present - known:  # gone for so long that it is not missed any more
            self._present.discard(title)
            self._away.pop(title, None)

    def _of_masters(self, sample: Sample) -> Iterator[Mark]:
        epochs = {
            name: next((each.epoch for each in rows if each.role == "master"), None)
            for name, rows in sample.copies.items()
        }
        for each in sample.brokers:
            if each.broker_id or not (each.answers and each.registered):
                continue
            before, now = self._masters.get(each.name), (each.address, epochs.get(each.name))
            if before is not None and (now[1] is None or before[1] is None):
                elected, now = now[0] != before[0], (now[0], now[1] if now[1] is not None else before[1])
            else:
                elected = before is not None and now != before
            self._masters[each.name] = now
            if elected and before is not None:
                fields = {"address": now[0], "before": before[0], "epoch": now[1]}
                yield Mark(sample.at_ms, "elected", "broker", each.name, fields)

    def _of_groups(self, sample: Sample) -> Iterator[Mark]:
        if sample.members is None:
            return
        names = {name for name in sample.members if not is_system(name)}
        new = names - self._groups if self._groups is not None and sample.all_groups else set[str]()
        self._groups = names | (self._groups or set()) if sample.all_groups else None
        for name in sorted(new):
            yield Mark(sample.at_ms, "group_new", "group", name)
        for name in names:
            members = sample.members[name]
            if members:
                if self._alone.pop(name, 0) >= _SEEN:
                    yield Mark(sample.at_ms, "group_back", "group", name)
                self._active.add(name)
            elif members == 0 and name in self._active:
                self._alone[name] = self._alone.get(name, 0) + 1
                if self._alone[name] == _SEEN:
                    yield Mark(sample.at_ms, "group_silent", "group", name)

    async def _of_settings(self, sample: Sample) -> list[Mark]:
        now_ms = monotonic_ms(self._cluster.world.clock)
        if self._asked_ms is not None and now_ms - self._asked_ms < SETTINGS_MS:
            return []
        self._asked_ms = now_ms
        marks = []
        asking = Asking(self._cluster.world.clock, _SETTINGS_S)
        answering = {each.title: each.address for each in sample.brokers if each.answers}
        told = await asking.all({title: broker_settings(self._cluster, at) for title, at in answering.items()})
        for title, found in told.items():
            values = {each.key: each.value for each in found.value if each.origin != "computed"}
            before = self._settings.get(title, values)
            self._settings[title] = values
            for key in sorted(values.keys() & before.keys()):
                if values[key] != before[key]:
                    fields = {"key": key, "old": before[key], "new": values[key]}
                    marks.append(Mark(sample.at_ms, "setting", "broker", title, fields))
        return marks
