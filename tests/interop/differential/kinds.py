"""The scripts, one for each kind of message. A script does the same on both brokers.

A step waits for its preconditions, so that the order of records in the log is fixed. Topics have one queue if the
client would choose the queue.
"""

import json
from collections.abc import Callable

from harness.probe import create_topic

from differential.side import SET_MODE, UPDATE_GROUP, Side

Script = Callable[[Side], None]


def normal(side: Side) -> None:
    """Tags, keys, flags, own properties, chosen queues, oneway; a subscription of two tags."""
    create_topic(side.namesrv, "Normal", 2)
    side.note_first("normal-group", "Normal")
    side.do("producer", name="normal", group="normal-producers", topic="Normal")
    for i in range(6):
        side.do(
            "send",
            by="normal",
            topic="Normal",
            body=f"normal-{i}",
            queue=i % 2,
            tags="ABC"[i % 3],
            keys=f"k{i}",
            flag=i,
            properties=f"colour=c{i},WAIT={'false' if i % 2 else 'true'}",
        )
    side.do("send", "oneway", by="normal", topic="Normal", body="oneway", queue=1)
    side.do("send", by="normal", topic="Normal", body="plain", queue=0)
    side.wait_stored("Normal", 8)
    side.do("consumer", name="normal-consumer", group="normal-group", topic="Normal", sub="A||B")
    side.wait_received("normal-consumer", 4)
    side.do("stop", name="normal-consumer")


def batch(side: Side) -> None:
    """A batch to a chosen queue, with tags and properties, and one of a single message."""
    create_topic(side.namesrv, "Batch", 2)
    side.note_first("batch-group", "Batch")
    side.do("producer", name="batch", group="batch-producers", topic="Batch")
    side.do("batch", by="batch", topic="Batch", body="b", count=5, queue=1, tags="A", properties="p=q")
    side.do("batch", by="batch", topic="Batch", body="single", count=1, queue=0)
    side.do("consumer", name="batch-consumer", group="batch-group", topic="Batch")
    side.wait_received("batch-consumer", 6)
    side.do("stop", name="batch-consumer")


def broadcasting(side: Side) -> None:
    """Two consumers that both receive all messages; a failed message is not sent back."""
    create_topic(side.namesrv, "Broadcast", 1)
    side.do("producer", name="broadcast", group="broadcast-producers", topic="Broadcast")
    for name in ("broadcast-1", "broadcast-2"):
        side.do("consumer", name=name, group="broadcast-group", topic="Broadcast", model="broadcasting", fail=1)
    for i in range(4):
        side.do("send", by="broadcast", topic="Broadcast", body=f"broadcast-{i}", tags="A")
    for name in ("broadcast-1", "broadcast-2"):
        side.wait_received(name, 4)
        side.do("stop", name=name)


def delay(side: Side) -> None:
    """Levels 1 and 2, one above the last level, which counts as the last, and one in a batch."""
    create_topic(side.namesrv, "Delay", 2)
    side.note_first("delay-group", "Delay")
    side.do("producer", name="delay", group="delay-producers", topic="Delay")
    for level in (1, 2, 40):
        side.do(
            "send", by="delay", topic="Delay", body=f"level-{level}", queue=level % 2, level=level, tags="A", keys="k"
        )
        side.wait_stored("Delay", 1 + (1, 2, 40).index(level))
    side.do("consumer", name="delay-consumer", group="delay-group", topic="Delay")
    side.wait_received("delay-consumer", 3)
    side.do("stop", name="delay-consumer")


def retry(side: Side) -> None:
    """Failed once without a level and once with one; and failed until it becomes a dead letter."""
    create_topic(side.namesrv, "Retry", 1)
    side.do("producer", name="retry", group="retry-producers", topic="Retry")
    for name, group, fail, options in (
        ("retry-usual", "retry-usual-group", 1, {}),
        ("retry-level", "retry-level-group", 1, {"next_level": 2}),
        ("retry-dead", "retry-dead-group", 9, {"max_reconsume": 2}),
        ("retry-at-once", "retry-at-once-group", 9, {"next_level": -1}),
    ):
        side.do("send", by="retry", topic="Retry", body=f"for-{name}", tags=name, keys=f"k-{name}", flag=7)
        side.do("consumer", name=name, group=group, topic="Retry", sub=name, fail=fail, **options)
        if fail == 1:
            side.wait_received(name, 2)
        else:
            side.wait_stored(f"%DLQ%{group}", 1)
        side.do("stop", name=name)


def ordered(side: Side) -> None:
    """Each message fails once before the next is consumed; one that always fails is finally skipped."""
    create_topic(side.namesrv, "Ordered", 2)
    side.note_first("ordered-group", "Ordered")
    side.do("producer", name="ordered", group="ordered-producers", topic="Ordered")
    for i in range(6):
        side.do("send", by="ordered", topic="Ordered", body=f"ordered-{i}", queue=i % 2, tags="A")
    side.do("consumer", "orderly", name="ordered-consumer", group="ordered-group", topic="Ordered", fail=1)
    side.wait_received("ordered-consumer", 12)
    side.do("stop", name="ordered-consumer")
    side.do("send", by="ordered", topic="Ordered", body="refused", queue=0, tags="B")
    side.do("send", by="ordered", topic="Ordered", body="behind-it", queue=0, tags="B")
    side.note_first("ordered-dead-group", "Ordered")
    options: dict[str, str | int] = {"sub": "B", "fail": 2, "max_reconsume": 1}
    side.do("consumer", "orderly", name="ordered-dead", group="ordered-dead-group", topic="Ordered", **options)
    side.wait_stored("%DLQ%ordered-dead-group", 2)
    side.do("stop", name="ordered-dead")


def transaction(side: Side) -> None:
    """Committed, rolled back, committed or rolled back at the second check, and never decided."""
    create_topic(side.namesrv, "Transaction", 1)
    side.do(
        "producer",
        "transactional",
        name="transaction",
        group="transaction-producers",
        topic="Transaction",
        answers="unknown,commit",
    )
    for i, word in enumerate(("commit", "rollback", "unknown")):
        side.do("transaction", by="transaction", topic="Transaction", body=word, decide=word, tags="A", keys=f"k{i}")
    side.wait_events("asked", 2)
    side.wait_stored("Transaction", 2)
    side.do("stop", name="transaction")
    side.do(
        "producer", "transactional", name="rolling", group="rolling-producers", topic="Transaction", answers="rollback"
    )
    side.do("transaction", by="rolling", topic="Transaction", body="rolled-back-when-asked", decide="unknown")
    side.wait_events("asked", 3)
    side.do("stop", name="rolling")
    side.do(
        "producer", "transactional", name="unsure", group="unsure-producers", topic="Transaction", answers="unknown"
    )
    side.do("transaction", by="unsure", topic="Transaction", body="never-decided", decide="unknown")
    side.wait_stored("TRANS_CHECK_MAX_TIME_TOPIC", 1)
    side.do("stop", name="unsure")
    side.do("consumer", name="transaction-consumer", group="transaction-group", topic="Transaction")
    side.wait_received("transaction-consumer", 2)
    side.do("stop", name="transaction-consumer")


def timer(side: Side) -> None:
    """Due in milliseconds, in seconds, at once since the time is past; and one that is recalled."""
    create_topic(side.namesrv, "Timer", 1)
    side.do("producer", name="timer", group="timer-producers", topic="Timer")
    for i, wish in enumerate(("TIMER_DELAY_MS=2000", "TIMER_DELAY_SEC=2", "TIMER_DELIVER_MS=1000")):
        side.do("send", by="timer", topic="Timer", body=f"timer-{i}", tags="A", keys=f"k{i}", properties=wish)
        side.wait_stored("Timer", i + 1)
    sent = side.do("send", by="timer", topic="Timer", body="recalled", properties="TIMER_DELAY_SEC=4")
    side.do("recall", by="timer", topic="Timer", handle=sent["handle"])
    side.do("send", by="timer", topic="Timer", body="after-it", properties="TIMER_DELAY_SEC=5")
    side.wait_stored("Timer", 4)
    side.do("consumer", name="timer-consumer", group="timer-group", topic="Timer")
    side.wait_received("timer-consumer", 4)
    side.do("stop", name="timer-consumer")


def pop(side: Side) -> None:
    """A push consumer in pop mode: a message fails once, and is acknowledged when delivered again."""
    create_topic(side.namesrv, "Pop", 1)
    side.ask(UPDATE_GROUP, {}, json.dumps({"groupName": "pop-group"}).encode())
    mode = {"topic": "Pop", "consumerGroup": "pop-group", "mode": "POP", "popShareQueueNum": 0}
    side.ask(SET_MODE, {}, json.dumps(mode).encode())
    side.do("producer", name="pop", group="pop-producers", topic="Pop")
    side.do("consumer", "pop", name="pop-consumer", group="pop-group", topic="Pop", fail=1)
    side.do("send", by="pop", topic="Pop", body="pop", tags="A", keys="k")
    side.wait_received("pop-consumer", 2)
    side.do("stop", name="pop-consumer")


def request_reply(side: Side) -> None:
    """Two requests with replies, and one without."""
    create_topic(side.namesrv, "Request", 1)
    side.do("producer", name="answering", group="answering-producers", topic="Request")
    side.do("consumer", name="answers", group="answers-group", topic="Request", answer_from="answering", sub="A")
    side.do("producer", name="asking", group="asking-producers", topic="Request")
    for i in range(2):
        side.do("ask", by="asking", topic="Request", body=f"question-{i}", tags="A")
        side.wait_events("answered", i + 1)
    side.do("ask", by="asking", topic="Request", body="unheard", tags="B", wait_ms=200)


def trace(side: Side) -> None:
    """Records of a producer and a consumer about a message, in the trace topic."""
    create_topic(side.namesrv, "Traced", 1)
    side.do("producer", "trace", name="traced", group="traced-producers", topic="Traced")
    side.do("send", by="traced", topic="Traced", body="traced-0", tags="A", keys="k")
    side.wait_stored("RMQ_SYS_TRACE_TOPIC", 1)
    side.do("consumer", "trace", name="traced-consumer", group="traced-group", topic="Traced")
    side.wait_received("traced-consumer", 1)
    side.wait_stored("RMQ_SYS_TRACE_TOPIC", 2)
    side.do("stop", name="traced-consumer")


SCRIPTS = (
    normal,
    batch,
    broadcasting,
    delay,
    retry,
    ordered,
    transaction,
    timer,
    request_reply,
    trace,
    pop,
)  # what is popped stays known for a minute
KINDS: dict[str, Script] = {script.__name__: script for script in SCRIPTS}
