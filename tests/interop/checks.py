"""Comparisons of sent and received messages that several tests share."""

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.driver import Driver
from harness.probe import committed
from harness.process import Event, Process
from polling import wait_until

# Now and then client 5.3.3 makes its first rebalance while its scheduled heartbeat holds the lock. The broker then
# knows an older subscription than the pulls name, on Java's side as on ours, until the next heartbeat 30 s later.
ARRIVAL_S = 60.0
# A client asks for its share every 20 s, and one round more goes by now and then.
REBALANCE_S = 60.0
PROGRESS_S = 30.0
STORED_S = 30.0


def position(event: Event) -> tuple[int, int]:
    """Where a message lies: queue and offset in it."""
    return int(event["queueId"]), int(event["queueOffset"])


def assert_same_messages(sent: Iterable[Event], received: Iterable[Event], *, same_ids: bool = True) -> None:
    """Each message sent was received once: same body, tags and keys and, where the sender was told them, same place.

    Pass `same_ids=False` for client batches: each entry has a UNIQ_KEY, the broker appends that of the batch, and of
    two properties with one name the consumer takes the last.
    """
    sent, received = list(sent), list(received)
    bodies = Counter(e["bodySha256"] for e in received)
    assert bodies == Counter(e["bodySha256"] for e in sent)
    by_body = {e["bodySha256"]: e for e in received}
    for message in sent:
        arrived = by_body[message["bodySha256"]]
        assert arrived["bodyLength"] == message["bodyLength"]
        assert (arrived["tags"], arrived["keys"]) == (message["tags"], message["keys"])
        if message.get("queueOffset") is not None:
            assert position(arrived) == position(message)
            assert not same_ids or message["msgId"] in (None, arrived["msgId"])


def pull_all(driver: Driver, topic: str, sent: Sequence[object]) -> list[Event]:
    """Pull *topic* until it has as many messages as *sent*; oneway messages may be stored after their producer left."""
    return wait_until(
        lambda: received if len(received := driver.pull(topic)) >= len(sent) else [],
        f"{len(sent)} messages of {topic}",
        STORED_S,
    )


def wait_for_bodies(consumers: Iterable[Process], sent: Iterable[Event], deadline_s: float = ARRIVAL_S) -> list[Event]:
    """Wait until the consumers together have every message sent, and return what they received by then."""
    processes = list(consumers)
    wanted = {e["bodySha256"] for e in sent}

    def received(_: Process) -> list[Event]:
        got = [e for process in processes for e in process.of("received")]
        return got if wanted <= {e["bodySha256"] for e in got} else []

    return processes[0].wait_for(received, f"all of {len(wanted)} messages", deadline_s)


def leave(consumer: Process, broker: str, group: str, sent: Iterable[Event]) -> list[Event]:
    """Wait until the group's only consumer has everything sent, and *broker* its progress; then let it leave.

    A message is printed before the client notes its progress. What the client tells the broker at the end has no
    answer, and may be overtaken by an older progress in its last pull; while it runs it tells all again every 5 s.

    Args:
        consumer: a push consumer of the Java driver.
        broker: HOST:PORT of the broker with all that was sent.
        group: the consumer's.
        sent: "sent" events with their places.
    Returns:
        The "received" events.
    """
    ends: dict[tuple[str, int], int] = {}
    for event in (sent := list(sent)):
        place = str(event["topic"]), int(event["queueId"])
        ends[place] = max(ends.get(place, 0), int(event["queueOffset"]) + 1)
    wait_for_bodies([consumer], sent)

    def noted() -> dict[tuple[str, int], int | None]:
        return {(topic, queue_id): committed(broker, group, topic, queue_id) for topic, queue_id in ends}

    wait_until(lambda: noted() == ends, f"progress {ends} of {group}", PROGRESS_S, lambda: f"The broker has {noted()}")
    consumer.close_input()
    consumer.finish()
    return consumer.of("received")


def queues_of(consumer: Process) -> set[int]:
    """The queues that a push consumer has at the moment."""
    changes = consumer.of("assigned")
    return set(changes[-1]["queues"]) if changes else set()


def wait_for_shares(consumers: Iterable[Process], queues: int, deadline_s: float = REBALANCE_S) -> None:
    """Wait until every consumer has a share of the queues 0 .. *queues* - 1 and no queue has two owners."""
    processes = list(consumers)

    def shared(_: Process) -> bool:
        shares = [queues_of(p) for p in processes]
        return all(shares) and sorted(q for share in shares for q in share) == list(range(queues))

    processes[0].wait_for(shared, f"{queues} queues shared by {len(processes)} consumers", deadline_s)
