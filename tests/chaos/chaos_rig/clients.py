"""Senders and push consumers of the official Java client that keep running through all broker failures."""

from __future__ import annotations

from contextlib import ExitStack

from harness import Driver, Process
from harness.process import Event
from message_history import Bodies, place_of
from polling import wait_until

# A client rebalances every 20 s, retries a lost broker after a delay, and the queues of a killed member take 60 s.
PROGRESS_S = 90.0
ALL_CAME_S = 150.0


class Tally:
    """Counts lines of one kind as a process prints them."""

    def __init__(self, process: Process, kind: str) -> None:
        self._process, self._kind = process, kind
        self._looked = self._count = 0

    def count(self) -> int:
        """Lines so far."""
        while self._looked < len(self._process.events):
            self._count += self._process.events[self._looked].get("event") == self._kind
            self._looked += 1
        return self._count


class Sender:
    """`Driver stream`: threads that send one by one."""

    def __init__(self, process: Process, prefix: str) -> None:
        self.process, self.prefix = process, prefix
        self._sent, self._failed = Tally(process, "sent"), Tally(process, "failed")

    def acknowledged(self) -> int:
        return self._sent.count()

    def failed(self) -> int:
        return self._failed.count()

    def bodies(self) -> Bodies:
        """Acknowledged messages by place; a place assigned twice is an error."""
        found: Bodies = {}
        for event in self.process.of("sent"):
            assert event["status"] == "SEND_OK", event
            body = f"{self.prefix}-{event['t']}-{event['i']}"
            assert found.setdefault(place_of(event), body) == body, f"{place_of(event)} was acknowledged twice"
        return found


class Crew:
    """The clients of one scenario and topic; *stack* stops those that are still running.

    Args:
        driver: starts the clients.
        topic: the topic that they send to and read.
        stack: closed at the end of the test.
    """

    def __init__(self, driver: Driver, topic: str, stack: ExitStack) -> None:
        self._driver, self._topic, self._stack = driver, topic, stack
        self.senders: list[Sender] = []
        self._readers: dict[str, list[Process]] = {}  # by group, including members that have left

    def send(self, prefix: str, **options: str | int) -> Sender:
        """Start a process of senders; the bodies of their messages begin with *prefix*."""
        process = self._driver.start("stream", topic=self._topic, body_prefix=prefix, **options)
        sender = Sender(self._stack.enter_context(process), prefix)
        self.senders.append(sender)
        return sender

    def read(self, group: str, listener: str = "concurrent") -> Process:
        """Start a push consumer of *group*; it is connected when this returns."""
        process = self._driver.start("follow", topic=self._topic, group=group, listener=listener, poll_ms=5000)
        self._stack.enter_context(process)
        self._readers.setdefault(group, []).append(process)
        process.wait_for(lambda p: p.of("started"), "started")
        return process

    def got(self, group: str) -> list[Event]:
        """The messages delivered to the consumers of *group*."""
        return [event for process in self._readers[group] for event in process.of("got")]

    def acknowledged(self) -> int:
        """Messages acknowledged so far."""
        return sum(sender.acknowledged() for sender in self.senders)

    def failed(self) -> int:
        """Sends that failed so far."""
        return sum(sender.failed() for sender in self.senders)

    def wait_for_more(self, count: int) -> None:
        """Wait until *count* more messages are acknowledged."""
        wanted = self.acknowledged() + count
        wait_until(
            lambda: self.acknowledged() >= wanted,
            f"{count} more acknowledged messages",
            PROGRESS_S,
            lambda: f"{self.acknowledged()} of {wanted}. {self.senders[0].process.tail()}",
        )

    def stop_sending(self) -> Bodies:
        """Stop all senders and return all messages acknowledged to any of them."""
        acknowledged: Bodies = {}
        for sender in self.senders:
            sender.process.close_input()
        for sender in self.senders:
            sender.process.finish()
            mine = sender.bodies()
            assert not mine.keys() & acknowledged.keys(), "two senders were given one place"
            acknowledged |= mine
        return acknowledged

    def wait_for_all(self, group: str, wanted: Bodies) -> list[Event]:
        """Wait until everything in the queues was delivered to *group*; return the messages delivered by then."""
        tallies = [Tally(process, "got") for process in self._readers[group]]
        looked = -1

        def look() -> list[Event]:
            nonlocal looked
            seen = sum(tally.count() for tally in tallies)
            if seen < len(wanted) or seen == looked:
                return []
            looked = seen
            got = self.got(group)
            return got if wanted.keys() <= {place_of(event) for event in got} else []

        def missing() -> str:
            left = sorted(wanted.keys() - {place_of(event) for event in self.got(group)})
            tails = "".join(process.tail() for process in self._readers[group][-2:])
            return f"{len(left)} of {len(wanted)} are missing, such as {left[:3]}. {tails}"

        return wait_until(look, f"all messages for {group}", ALL_CAME_S, missing)
