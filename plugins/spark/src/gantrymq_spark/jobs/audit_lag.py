"""The lag of groups, from brokers or from the files of a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from gantrymq.client import Admin, Client
from gantrymq.errors import BrokerRefused, FormatError
from gantrymq.plugin.config_files import CONSUMER_OFFSETS, LIGHT_CONSUMER_OFFSETS, ConsumerOffsetsFile
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.names import DLQ_PREFIX, is_system_group, is_system_topic
from gantrymq.plugin.remoting import RequestCode
from gantrymq_spark.jobs.audit_findings import AuditFinding, dead_letter
from gantrymq_store_tools.findings import counted


@attrs.frozen
class GroupLag:
    """The lag of one group in one queue."""

    group: str
    topic: str
    queue_id: int
    offset: int  # the next queue offset that it consumes
    end: int  # queue offset after the last message
    broker_name: str = ""

    @property
    def behind(self) -> int:
        """Number of messages not consumed."""
        return max(0, self.end - self.offset)


@attrs.frozen
class LiveGroups:
    """Lags and dead letters of groups of some topics, from brokers."""

    lags: list[GroupLag]
    dead_letters: list[AuditFinding]


def lags(offsets: Mapping[str, Mapping[int, int]], ends: Mapping[tuple[str, int], int], broker: str) -> list[GroupLag]:
    """Return the lag of every user group in every queue with a known end, except groups that broadcast.

    Args:
        offsets: ``topic@group`` to queue ids and offsets, as in consumerOffset.json.
        ends: by topic and queue id.
        broker: its name.
    """
    found = []
    for key, queues in sorted(offsets.items()):
        topic, _, group = key.partition("@")
        if not group or "@" in group or is_system_group(group) or is_system_topic(topic):
            continue
        for queue_id, offset in sorted(queues.items()):
            if (end := ends.get((topic, queue_id))) is not None:
                found.append(GroupLag(group, topic, queue_id, offset, end, broker))
    return found


def lag_finding(lag: GroupLag, most: int) -> AuditFinding | None:
    """Return the finding for a lag greater than *most* messages."""
    if lag.behind <= most:
        return None
    place = f"{lag.topic}/{lag.queue_id}"
    allowed = "1 is allowed" if most == 1 else f"{most:,} are allowed"
    text = f"group {lag.group} is {counted(lag.behind, 'message')} behind in {place}; {allowed}"
    return AuditFinding("lag", text, lag.broker_name, lag.topic, lag.queue_id, lag.offset, count=lag.behind)


def lags_of_store(root: Path, ends: Mapping[tuple[str, int], int], broker: str) -> tuple[list[GroupLag], str | None]:
    """Return the lags from a store's folder, and a sentence if they are unknown."""
    tried = [root / "config" / name for name in (CONSUMER_OFFSETS, LIGHT_CONSUMER_OFFSETS)]
    there = [path for path in tried if path.is_file()]
    if not there:
        return [], f"lag: {tried[0]} is missing"
    offsets: dict[str, Mapping[int, int]] = {}
    for path in there:
        try:
            read = ConsumerOffsetsFile.from_json(loads(path.read_bytes()), light=path.name == LIGHT_CONSUMER_OFFSETS)
        except (OSError, FormatError) as problem:
            return [], f"lag: {path} cannot be read: {problem}"
        offsets |= read.offsets
    return lags(offsets, ends, broker), None


async def live_groups(
    namesrv: str | None, topics: Sequence[str], pattern: str | None, tls: bool | None = None
) -> LiveGroups:
    """Query brokers for lags and dead letters.

    Args:
        namesrv: name servers; None for $NAMESRV_ADDR.
        topics: by name.
        pattern: of whole names; system, retry and dead-letter topics never match.
        tls: None for the setting ``tls.enable``.

    Raises:
        ClientError: a name server or broker does not respond, or refuses.
    """
    found, dead = [], []
    async with Client(namesrv, tls=tls) as client, client.admin as admin:
        wanted = list(topics) or _matching(await admin.topics(), pattern or "")
        info = await admin.clusters()
        for broker in info.brokers:
            name, address = broker.name, broker.master
            if address is None:
                continue
            ends = await _ends(admin, address, wanted)
            if not ends:
                continue
            table = await admin.request_json(address, RequestCode.GET_ALL_CONSUMER_OFFSET, what="offsets")
            of_broker = ConsumerOffsetsFile.from_json(table).offsets
            found += lags(of_broker, {place: end for place, (_, end) in ends.items()}, name)
            groups = {lag.group for lag in found if lag.broker_name == name}
            left = [DLQ_PREFIX + group for group in sorted(groups) if DLQ_PREFIX + group not in wanted]
            for (topic, queue_id), (start, end) in sorted((await _ends(admin, address, left)).items()):
                if end > start:
                    dead.append(dead_letter(name, topic, queue_id, start, end - start))
    return LiveGroups(found, dead)


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if not is_system_topic(name) and name[:1] != "%" and re.fullmatch(pattern, name)]


async def _ends(admin: Admin, address: str, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first queue offset and the end of this broker's queues."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic in topics:
        try:
            stats = await admin.topic_stats(address, topic)
        except BrokerRefused:
            continue  # this broker does not have the topic
        for queue, each in stats.items():
            found[topic, queue.queue_id] = (each.min_offset, each.max_offset)
    return found
