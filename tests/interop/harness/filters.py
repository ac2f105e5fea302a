"""Runs `gantrymq.interop.Filters` (java/filter): the result of Java's SQL92 filter for an expression and properties."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.jars import QUICK_START, filters_class_path
from harness.peers import used
from harness.process import Event, Process

VERSION = "5.3.3"
ANSWER_S = 120.0
AT_ONCE = 1_000  # lines written before the first of their answers is waited for


class JavaAnswer(NamedTuple):
    """The answer of Java: ``true``, ``false``, ``null``, ``refused`` by its parser or ``failed`` on the message."""

    answer: str
    why: str  # of the last two, in Java's words


class JavaFilters(Process):
    """The filter classes of a Java broker, in a process without a broker.

    Args:
        scratch: its home.
        tuning: of the JVM; by default it starts quickly.
    """

    def __init__(self, scratch: Path, tuning: tuple[str, ...] = QUICK_START) -> None:
        used(f"rocketmq-filter {VERSION}")
        java = ["java", *tuning, "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Duser.home={scratch}"]
        words = [*java, "-cp", filters_class_path(VERSION), "gantrymq.interop.Filters"]
        super().__init__("filters", words, scratch)

    def answers(self, pairs: Sequence[tuple[str, bytes]]) -> list[JavaAnswer]:
        """Return Java's answer to each pair of an expression and raw property bytes, in the same order."""
        found: list[JavaAnswer] = []
        for begin in range(0, len(pairs), AT_ONCE):
            events = self._ask(
                [("answer", _base64(text.encode()), _base64(raw)) for text, raw in pairs[begin:][:AT_ONCE]]
            )
            found += [JavaAnswer(str(event["answer"]), str(event.get("why", ""))) for event in events]
        return found

    def rate(self, seconds: float, expressions: Iterable[str], messages: Iterable[bytes]) -> Event:
        """Return answers per second of CPU: ``whole`` from raw properties, ``decoded`` from a map of properties.

        Every expression is evaluated for each message. Each of the two rates is measured for *seconds* of CPU.
        """
        texts = ",".join(_base64(text.encode()) for text in expressions)
        raws = ",".join(map(_base64, messages))
        return self._ask([("rate", str(int(seconds * 1e9)), texts, raws)])[0]

    def _ask(self, questions: Sequence[tuple[str, ...]]) -> list[Event]:
        before = len(self.events)
        self.write_line("\n".join("\t".join(fields) for fields in questions))
        want = before + len(questions)
        self.wait_for(lambda p: len(p.events) >= want, f"{len(questions)} answers", ANSWER_S)
        return self.events[before:want]


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
