"""One of the two brokers, with the official client that runs the steps of a script."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.jars import QUICK, steps_class_path
from harness.peers import used
from harness.probe import request
from harness.process import Event, Process
from polling import wait_until

from differential.stored import read_log
from gantrymq.loose_json import loads

CLIENT = "5.3.3"
# A Java broker notes, every five seconds, how far broadcasting clients are, for their change between proxy and broker.
FOR_PROXIES = "@broadcast"
REVIVING = "CID_RMQ_SYS_REVIVE_GROUP"  # moves on in its own time
STEP_S = 20.0
ARRIVAL_S = 20.0
OFTEN = [f"-Drocketmq.client.rebalance.{name}Interval=1000" for name in ("wait", "min")]
JAVA = [*OFTEN, *QUICK]
ALL_TOPICS, ALL_OFFSETS, UPDATE_GROUP, SET_MODE, UPDATE_OFFSET = 21, 43, 200, 401, 15


class Side:
    """A broker on which scripts run.

    Args:
        name: ``java`` or ``ours``.
        namesrv: HOST:PORT.
        broker: HOST:PORT.
        store: the broker's store.
        scratch: the client's home.
    """

    def __init__(self, name: str, namesrv: str, broker: str, store: Path, scratch: Path) -> None:
        used(f"rocketmq-client {CLIENT}")
        self.name = name
        self.namesrv = namesrv
        self.broker = broker
        self.store = store
        self.start = 0  # log offset at which the run began
        self._begun = 0  # events before the run
        self._topics: set[str] = set()  # before the run
        self._offsets: dict[tuple[str, str, int], int] = {}  # before the run
        words = ["java", *JAVA, f"-Duser.home={scratch}", "-cp", steps_class_path(CLIENT)]
        home = f"-Drocketmq.client.localOffsetStoreDir={scratch / 'offsets'}"
        self.steps = Process(
            f"steps-{name}", [*words[:-2], home, *words[-2:], "gantrymq.interop.Steps", namesrv], scratch
        )
        self.steps.wait_for_start(lambda p: p.of("started"), "started", STEP_S)

    def begin(self) -> None:
        """Begin a run, which excludes everything stored before."""
        log = read_log(self.store)
        self.start = log[-1].log_offset + log[-1].total_size if log else 0
        self._begun = len(self.steps.events)
        self._topics = set()
        self._topics = set(self.topics())
        self._offsets = self._positions()

    def topics(self) -> dict[str, Any]:
        """Return the topics that the run created, with their settings."""
        found = dict(loads(self.ask(ALL_TOPICS, {}))["topicConfigTable"])
        return {name: row for name, row in found.items() if name not in self._topics}

    def moved(self) -> dict[tuple[str, str, int], int]:
        """Return the offsets of groups that the run changed, by topic, group and queue."""
        return {place: offset for place, offset in self._positions().items() if self._offsets.get(place, 0) != offset}

    def _positions(self) -> dict[tuple[str, str, int], int]:
        found = {}
        for name, queues in loads(self.ask(ALL_OFFSETS, {})).get("offsetTable", {}).items():
            topic, _, group = name.partition("@")
            if group != REVIVING and not group.endswith(FOR_PROXIES):
                found.update({(topic, group, int(queue_id)): int(offset) for queue_id, offset in queues.items()})
        return found

    @property
    def events(self) -> list[Event]:
        """Return the events that the client printed in this run."""
        return self.steps.events[self._begun :]

    def do(self, verb: str, *flags: str, **options: str | int) -> Event:
        """Run a step and return the first line that it printed, or the line that reports its end."""
        words = [verb, *(f"--{flag}" for flag in flags)]
        for key, value in options.items():
            words += [f"--{key.rstrip('_').replace('_', '-')}", str(value)]
        before, done = len(self.steps.events), len(self.steps.of("did"))
        self.steps.write_line(" ".join(words))
        self.steps.wait_for(lambda p: len(p.of("did")) > done, f"end of {' '.join(words)}", STEP_S)
        return self.steps.events[before]

    def received(self, name: str) -> list[Event]:
        """Return the messages that the consumer *name* received in this run."""
        return [e for e in self.events if e["event"] == "received" and e["name"] == name]

    def wait_received(self, name: str, count: int) -> list[Event]:
        """Wait until the consumer *name* has received *count* messages, including repeated ones."""
        what = f"{count} messages for {name} on {self.name}"
        wait_until(lambda: len(self.received(name)) >= count, what, ARRIVAL_S, lambda: str(self.received(name)))
        return self.received(name)

    def wait_events(self, event: str, count: int) -> None:
        """Wait until the client has printed *count* events of one kind in this run."""
        self._wait(lambda: len([e for e in self.events if e["event"] == event]) >= count, f"{count} {event}")

    def wait_stored(self, topic: str, count: int) -> None:
        """Wait until the run has stored *count* records of *topic*."""
        self._wait(lambda: len(self._records(topic)) >= count, f"{count} records of {topic}")

    def note_first(self, group: str, topic: str) -> None:
        """Commit the first offset of the group alone, before a consumer commits those of several queues at once.

        Of two first commits at once a Java broker may forget one.
        Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java (commitOffset).
        """
        self.ask(UPDATE_GROUP, {}, json.dumps({"groupName": group}).encode())
        self.ask(UPDATE_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "0"})

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
        """Send one request to the broker and return the body of the response."""
        header, found = request(self.broker, code, fields, body)
        assert header["code"] == 0, f"{self.name} answered {header}"
        return found

    def _records(self, topic: str) -> list[Any]:
        return [record for record in read_log(self.store) if record.log_offset >= self.start and record.topic == topic]

    def _wait(self, look: Callable[[], bool], what: str) -> None:
        wait_until(look, f"{what} on {self.name}", ARRIVAL_S, lambda: str(self.events[-5:]))
