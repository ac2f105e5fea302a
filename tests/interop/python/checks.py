"""Checks rocketmq-python-client at a gRPC endpoint: python checks.py HOST:PORT PREFIX

Topics and groups are named PREFIX and the words of README.md. One JSON line per check on standard output.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rocketmq
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

AWAIT_S, INVISIBLE_S, LIMIT_S = 5, 10, 25
TYPES = ("Normal", "Filter", "Fifo", "Delay", "Transaction", "Push", "Ordered")
Received = list[Any]


class Checker(TransactionChecker):
    """Commits what the server asks about, unless it is to be rolled back."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, message: Message) -> TransactionResolution:
        body = message.body.decode()
        self.asked.append(body)
        return TransactionResolution.ROLLBACK if "rollback" in body else TransactionResolution.COMMIT


class Listener(MessageListener):
    """Fails "again" the first time and "dead" always, and remembers each attempt."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def consume(self, message: Message) -> ConsumeResult:
        body, attempt = message.body.decode(), message.delivery_attempt
        first = body not in [each for each, _ in self.seen]
        self.seen.append((body, attempt))
        failing = body == "dead" or (body == "again" and first)
        return ConsumeResult.FAILURE if failing else ConsumeResult.SUCCESS


def message(topic: str, body: str, **more: Any) -> Message:
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def gather(consumer: SimpleConsumer, count: int, *, ack: bool = True, invisible_s: int = INVISIBLE_S) -> Received:
    """Receive until there are *count* messages, and acknowledge them."""
    found: Received = []
    end = time.monotonic() + LIMIT_S
    while len(found) < count and time.monotonic() < end:
        for each in consumer.receive(16, invisible_s) or []:
            found.append(each)
            if ack:
                consumer.ack(each)
    return found


def bodies(found: Received) -> list[str]:
    return [each.body.decode() for each in found]


def equal(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"{actual!r} instead of {expected!r}")


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"after {LIMIT_S} s: {what()}")
        time.sleep(0.1)  # real time: a program of its own, without the tests' helpers


def check(name: str, function: Callable[[], dict[str, Any] | None]) -> None:
    start = time.monotonic()
    line: dict[str, Any] = {"event": "check", "check": name, "ok": True}
    try:
        line.update(function() or {})
    except Exception as error:
        line.update(ok=False, error=f"{type(error).__name__}: {error}")
    print(json.dumps({**line, "seconds": round(time.monotonic() - start, 2)}), flush=True)


def refused(function: Callable[[], object]) -> Callable[[], dict[str, Any]]:
    """Return a check that *function* fails; code is null where the SDK itself refuses."""

    def run() -> dict[str, Any]:
        try:
            result = function()
        except Exception as error:
            code = getattr(error, "code", None)
            return {"code": int(code) if code else None, "message": str(error)}
        raise AssertionError(f"not refused: {result}")

    return run


class Sdk:
    """The clients, and a method for each check."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        self.prefix = prefix
        self.configuration = ClientConfiguration(endpoint, Credentials())
        self.checker, self.listener, self.ordered_listener = Checker(), Listener(), Listener()
        self.producer = Producer(self.configuration, [prefix + each for each in TYPES], checker=self.checker)
        self.producer.startup()
        self.normal = self.simple("Normal", "normal")
        self.fifo = self.simple("Fifo", "fifo")
        self.delay = self.simple("Delay", "delay")
        self.transaction = self.simple("Transaction", "transaction")
        self.tag = self.simple("Filter", "tag", FilterExpression("A || C"))
        self.sql = self.simple("Filter", "sql", FilterExpression("number > 1", FilterType.SQL))
        # Early: the SDK does not wait for the server's settings, without which Java's proxy refuses to receive.
        self.dead = {each: self.simple(f"%DLQ%{prefix}{each}", f"{each}-dead") for each in ("push", "ordered")}
        self.pushes = [self.push("Push", self.listener), self.push("Ordered", self.ordered_listener)]

    def simple(self, topic: str, group: str, expression: FilterExpression | None = None) -> SimpleConsumer:
        name = topic if topic.startswith("%") else self.prefix + topic
        subscription = {name: expression or FilterExpression()}
        consumer = SimpleConsumer(self.configuration, self.prefix + group, subscription, AWAIT_S)
        consumer.startup()
        return consumer

    def push(self, topic: str, listener: Listener) -> PushConsumer:
        subscription = {self.prefix + topic: FilterExpression()}
        consumer = PushConsumer(self.configuration, self.prefix + topic.lower(), listener, subscription)
        consumer.startup()
        return consumer

    def send(self, topic: str, body: str, **more: Any) -> Any:
        return self.producer.send(message(self.prefix + topic, body, **more))

    def run(self) -> None:
        self.send_early()
        check("recall", self.check_recall)
        check("delay", self.check_delay)
        check("normal", self.check_normal)
        check("invisible", self.check_invisible)
        check("fifo", self.check_fifo)
        check("tag", self.check_tag)
        check("sql92", self.check_sql)
        check("unknown_topic", refused(lambda: self.send("Unknown", "x")))
        check("wrong_type", refused(lambda: self.send("Normal", "x", message_group="g")))
        check("illegal_name", refused(lambda: self.producer.send(message("bad topic!", "x"))))
        check("system_topic", refused(lambda: self.producer.send(message("RMQ_SYS_TRANS_HALF_TOPIC", "x"))))
        check("transaction", self.check_transaction)
        check("push", self.check_push)
        check("ordered", self.check_ordered)
        check("dead_letters", lambda: self.check_dead("push"))
        check("ordered_dead_letters", lambda: self.check_dead("ordered"))
        check("nothing_more", self.check_nothing_more)

    def send_early(self) -> None:
        """Send what takes its time to arrive."""
        for body in ("one", "two", "again", "dead", "three"):
            self.send("Push", body)
        for body in ("one", "dead", "two", "again", "three"):
            self.send("Ordered", body, message_group="g")
        for outcome in ("commit", "rollback", "ask commit", "ask rollback"):
            transaction = self.producer.begin_transaction()
            self.producer.send(message(self.prefix + "Transaction", outcome), transaction)
            if not outcome.startswith("ask"):
                getattr(transaction, outcome)()
        self.due = int(time.time()) + 4
        self.send("Delay", "delayed", delivery_timestamp=self.due)

    def check_recall(self) -> None:
        """Recall a message that would arrive with that of `check_delay`."""
        receipt = self.send("Delay", "recalled", delivery_timestamp=self.due)
        recalled = self.producer.recall_message(self.prefix + "Delay", receipt.recall_handle)
        equal(getattr(recalled, "message_id", recalled), receipt.message_id)

    def check_normal(self) -> dict[str, Any]:
        sent = []
        for number in range(3):
            made = message(self.prefix + "Normal", f"body {number}", tag="A")
            Message.keys.fset(made, f"k{number}", "common")  # as a property it takes one key
            made.add_property("number", str(number))
            sent.append(self.producer.send(made).message_id)
        found = sorted(gather(self.normal, 3), key=lambda each: each.body)
        equal(bodies(found), ["body 0", "body 1", "body 2"])
        equal([each.message_id for each in found], sent)
        equal([(each.tag, each.delivery_attempt, each.topic) for each in found], [("A", 1, self.prefix + "Normal")] * 3)
        equal([each.properties.get("number") for each in found], ["0", "1", "2"])
        equal([sorted(each.keys) for each in found], [["common", f"k{number}"] for number in range(3)])
        equal([each.corrupted for each in found], [False] * 3)
        return {"ids": sent}

    def check_invisible(self) -> None:
        self.send("Normal", "later")
        first = gather(self.normal, 1, ack=False, invisible_s=60)
        equal(bodies(first), ["later"])
        self.normal.change_invisible_duration(first[0], 1)
        second = gather(self.normal, 1)
        equal([(each.body, each.delivery_attempt) for each in second], [(b"later", 2)])
        equal(second[0].message_id, first[0].message_id)
        self.last_normal = time.monotonic()

    def check_fifo(self) -> None:
        sent = [f"{group}{number}" for number in range(4) for group in "ab"]
        for body in sent:
            self.send("Fifo", body, message_group=body[0])
        found = gather(self.fifo, len(sent))
        for group in "ab":
            equal([body for body in bodies(found) if body[0] == group], [body for body in sent if body[0] == group])
        equal({each.message_group for each in found}, {"a", "b"})

    def check_tag(self) -> None:
        for number, tag in enumerate("ABCD"):
            made = message(self.prefix + "Filter", tag, tag=tag)
            made.add_property("number", str(number))
            self.producer.send(made)
        equal(sorted(bodies(gather(self.tag, 2))), ["A", "C"])

    def check_sql(self) -> None:
        equal(sorted(bodies(gather(self.sql, 2))), ["C", "D"])

    def check_delay(self) -> None:
        equal(bodies(gather(self.delay, 1)), ["delayed"])
        if time.time() < self.due:
            raise AssertionError(f"{self.due - time.time():.2f} s early")

    def check_transaction(self) -> dict[str, Any]:
        equal(sorted(bodies(gather(self.transaction, 2))), ["ask commit", "commit"])
        until(lambda: "ask rollback" in self.checker.asked, lambda: self.checker.asked)
        equal(sorted(set(self.checker.asked)), ["ask commit", "ask rollback"])
        return {"asked": self.checker.asked}

    def check_push(self) -> None:
        wanted = [("again", 1), ("again", 2), ("dead", 1), ("dead", 2), ("one", 1), ("three", 1), ("two", 1)]
        until(lambda: len(self.listener.seen) >= len(wanted), lambda: self.listener.seen)
        equal(sorted(self.listener.seen), wanted)

    def check_ordered(self) -> dict[str, Any]:
        until(lambda: ("three", 1) in self.ordered_listener.seen, lambda: self.ordered_listener.seen)
        order = list(dict.fromkeys(body for body, _ in self.ordered_listener.seen))
        equal(order, ["one", "dead", "two", "again", "three"])
        return {"seen": self.ordered_listener.seen}

    def check_dead(self, group: str) -> None:
        equal(bodies(gather(self.dead[group], 1)), ["dead"])

    def check_nothing_more(self) -> None:
        """What was acknowledged, recalled or rolled back does not arrive, after the invisible time either."""
        until(lambda: time.monotonic() > self.last_normal + INVISIBLE_S + 2, lambda: "the clock")
        consumers = [self.normal, self.delay, self.transaction, self.tag, self.sql, self.fifo]
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(lambda each: bodies(each.receive(16, INVISIBLE_S) or []), consumers))
        equal(found, [[]] * len(consumers))


if __name__ == "__main__":
    print(json.dumps({"event": "started", "sdk": getattr(rocketmq, "__file__", None)}), flush=True)
    Sdk(sys.argv[1], sys.argv[2]).run()
    print(json.dumps({"event": "done"}), flush=True)
