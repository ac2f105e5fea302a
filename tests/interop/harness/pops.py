"""Runs `gantrymq.interop.Pops` (java/pop): the official client pops, command by command."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.jars import JVM, QUICK_START, pops_class_path
from harness.peers import used
from harness.process import Event, Process

VERSION = "5.3.3"
ANSWER_S = 60.0
DRAIN_S = 660.0


class Pops(Process):
    """Pops by one group from one broker, and push consumers in pop mode.

    Args:
        scratch: its home.
        namesrv: HOST:PORT.
        broker: HOST:PORT.
        tuning: of the JVM; by default it starts quickly.
        properties: of the JVM, such as an account.
    """

    def __init__(
        self,
        scratch: Path,
        namesrv: str,
        broker: str,
        tuning: tuple[str, ...] = QUICK_START,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        used(f"Java client {VERSION}")
        own = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        java = ["java", *own, *JVM, *tuning, "-Xmx512m"]
        home = [f"-Duser.home={scratch}", f"-Drocketmq.client.localOffsetStoreDir={scratch / 'offsets'}"]
        super().__init__(
            "pops", [*java, *home, "-cp", pops_class_path(VERSION), "gantrymq.interop.Pops", namesrv], scratch
        )
        self.broker = broker

    def mode(self, topic: str, group: str, mode: str = "POP") -> None:
        """Set the mode in which the group reads the topic."""
        self._ask("mode", self.broker, topic, group, mode)

    def pop(
        self, topic: str, group: str, *, invisible_ms: int = 60_000, poll_ms: int = 2_000, most: int = 32
    ) -> list[Any]:
        """Return the messages of one pop; none if the answer takes half a second longer than *poll_ms*."""
        found = self._ask("pop", self.broker, topic, group, str(most), str(invisible_ms), str(poll_ms))
        return list(found["messages"])

    def ack(self, topic: str, group: str, handle: str) -> str:
        """Acknowledge one message and return the status that the client reports."""
        return str(self._ask("ack", self.broker, topic, group, handle)["status"])

    def batch_ack(self, topic: str, group: str, handles: list[str]) -> str:
        """Acknowledge several messages."""
        return str(self._ask("batch", self.broker, topic, group, *handles)["status"])

    def change(self, topic: str, group: str, handle: str, invisible_ms: int) -> str:
        """Change an invisible time and return the new handle."""
        return str(self._ask("change", self.broker, topic, group, handle, str(invisible_ms))["handle"])

    def push(self, topic: str, group: str, failing: str = "\0") -> None:
        """Start a push consumer with "received" events. Messages that begin with *failing* fail once."""
        self._ask("push", topic, group, failing)

    def drain(self, topic: str, group: str, *, threads: int, count: int, warmup: int) -> Event:
        """Pop *count* messages, acknowledge each, and return the client's report."""
        words = (self.broker, topic, group, str(threads), str(count), str(warmup))
        return self._ask("drain", *words, deadline_s=DRAIN_S)

    def _ask(self, *words: str, deadline_s: float = ANSWER_S) -> Event:
        answers = ("popped", "answered", "done", "started", "drained", "problem")

        def seen(process: Process) -> list[Event]:
            return [event for event in process.events if event["event"] in answers]

        before = len(seen(self))
        self.write_line("\t".join(words))
        answer = self.wait_for(lambda p: seen(p)[before:], f"an answer to {words[:4]}", deadline_s)[0]
        if answer["event"] == "problem":
            raise RuntimeError(f"{words[0]}: {answer['message']}")
        return answer
