"""The invariants that must hold after a run, given the sends, the log, and the messages that consumers saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from simulation_rig.consuming import Following, Place, Seen
from simulation_rig.producing import Sent

Log = dict[Place, Seen]


def judge_log(sent: Sequence[Sent], log: Log) -> Iterator[str]:
    """Acknowledged: stored at the reported place. Sent: stored at most once per attempt. Everything in the log: was
    sent."""
    copies = Counter(seen.body for seen in log.values())
    by_body = {each.body: each for each in sent}
    for place, seen in log.items():
        origin = by_body.get(seen.body)
        if origin is None or origin.topic != place[0] or origin.tag != seen.tag:
            yield f"{place} holds what nobody sent so: {seen.body[:40]!r} with tag {seen.tag!r}, sent was {origin}"
    for each in sent:
        if each.place is not None:
            place = (each.topic, *each.place)
            found = log.get(place)
            if found is None or found.body != each.body:
                yield f"{name(each)} was acknowledged at {place}, where the log holds {found}"
        if copies[each.body] > each.tries:
            yield f"{name(each)} is there {copies[each.body]} times after {each.tries} attempts"
    yield from judge_order(sent)
    yield from judge_gaps(log)


def judge_order(sent: Sequence[Sent]) -> Iterator[str]:
    """Per producer and queue, a message acknowledged later has a later offset."""
    last: dict[tuple[int, str, int], Sent] = {}
    for each in sent:
        if each.place is None:
            continue
        key = (each.producer, each.topic, each.place[0])
        before = last.get(key)
        if before is not None and before.place is not None and before.place[1] >= each.place[1]:
            yield f"{name(each)} lies at {each.place}, behind it {name(before)} at {before.place}"
        last[key] = each


def judge_gaps(log: Log) -> Iterator[str]:
    """Queue offsets count up from 0 without holes."""
    queues: dict[tuple[str, int], list[int]] = {}
    for topic, queue, offset in log:
        queues.setdefault((topic, queue), []).append(offset)
    for queue_name, offsets in queues.items():
        if sorted(offsets) != list(range(len(offsets))):
            yield f"queue {queue_name} holds the offsets {sorted(offsets)}"


def judge_consumer(consumer: Following, tags: frozenset[str], log: Log) -> Iterator[str]:
    """The consumer saw every message that it subscribed to, no other, and each as it is in the log."""
    wanted = {place: seen for place, seen in log.items() if not tags or seen.tag in tags}
    for place, seen in consumer.seen.items():
        if wanted.get(place) != seen:
            yield f"{consumer.group} saw {seen} at {place}, where the log has {log.get(place)}"
    missing = sorted(wanted.keys() - consumer.seen.keys())
    if missing:
        yield f"{consumer.group} never saw {missing[:10]}"


def name(sent: Sent) -> str:
    """A message, for a sentence."""
    return f"message {sent.producer}/{sent.number} ({'oneway' if sent.oneway else f'{sent.tries} attempts'})"
