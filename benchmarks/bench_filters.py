"""Tag checks and SQL92 evaluations per second of CPU: ours, Python's `eval` of equivalent source, Java's filter.

    python benchmarks/bench_filters.py                three rounds: some five minutes
    python benchmarks/bench_filters.py --quick        one short round; too short for a JVM to warm up
    python benchmarks/bench_filters.py --no-java      without Java

"raw" starts from the stored property bytes of a message, for ours with its record, as a broker does for a pull;
"ready" starts from a map of the properties. Java's filter and `eval` first build that map, ours looks up only the
properties it needs. `eval` with a ready map is the upper limit of Python; its source was written by hand and compiled
once.

The second table evaluates each message for 1, 100 and 10,000 subscriptions, each to a different value; at most one of
a hundred messages matches a subscription. With bits, the broker checks the message's bit map first, as it does for a
pull from a queue with enableCalcFilterBitMap=true. The third table is the computation of the map, once, when the
message arrives.

Everything runs in turn on one core, round by round, in one process and one JVM; the figures are medians. No broker
runs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from arguments import seconds, whole

from gantrymq.formats.record import encode_record, read_record
from gantrymq.model.properties import decode, encode_text
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter, FilterData
from gantrymq_filter_sql92.bitmap.message_filter import EACH_COSTS, MOST_COST, BitMapCounters, EvaluationTime, TopicBits
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import Sql92Filter
from gantrymq_filter_tag.filter import TagFilter, tags_code

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))

from harness import JavaFilters

MESSAGES = 100
TAG_GOAL = 500_000
SIMPLE_GOAL = 200_000
SUBSCRIPTIONS = (1, 100, 10_000)
ERROR_PERCENT = 20  # maxErrorRateOfBloomFilter's default
TAGS = ("TagA", "TagB", "TagC", "TagD")
REGIONS = ("hangzhou", "shanghai", "beijing", "shenzhen", "chengdu")
COLUMNS = ("gantrymq raw", "eval raw", "eval ready", "java raw", "java ready")

Pass = Callable[[], object]  # one go through all messages


class Case(NamedTuple):
    """An expression, and its equivalent in Python on a map of strings."""

    name: str
    expression: str
    source: str
    goal: int | None = None


CASES = (
    Case("number", "price > 500", "float(price) > 500", SIMPLE_GOAL),
    Case("text", "region = 'hangzhou'", "region == 'hangzhou'", SIMPLE_GOAL),
    Case("range", "price BETWEEN 100 AND 200", "100 <= float(price) <= 200"),
    Case("list", "region IN ('hangzhou', 'beijing', 'xian')", "region in ('hangzhou', 'beijing', 'xian')"),
    Case("part", "note CONTAINS 'urgent'", "'urgent' in note"),
    Case(
        "seven conditions",
        "(price BETWEEN 100 AND 900 OR vip = TRUE) AND region IN ('hangzhou', 'beijing', 'xian') AND amount >= 3 "
        "AND note NOT CONTAINS 'test' AND note IS NOT NULL AND NOT (region = 'xian')",
        "(100 <= float(price) <= 900 or vip == 'true') and region in ('hangzhou', 'beijing', 'xian') and "
        "float(amount) >= 3 and 'test' not in note and note is not None and not region == 'xian'",
    ),
)


def messages() -> list[bytes]:
    """Stored properties of messages, some 200 bytes each: those added by a client, and five of the application's."""
    rng = random.Random(1)
    found = []
    for number in range(MESSAGES):
        properties = {
            "UNIQ_KEY": f"7F00000100002A139A55{number:012X}",
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "WAIT": "true",
            "TAGS": rng.choice(TAGS),
            "price": str(rng.randrange(1000)),
            "region": rng.choice(REGIONS),
            "amount": str(rng.randrange(10)),
            "vip": rng.choice(("true", "false")),
            "note": rng.choice(("urgent order", "test order", "order", "nothing to say about this one")),
            "shard": str(number),
        }
        found.append(encode_text(properties).encode())
    return found


def rate(go: Pass, answers: int, for_s: float) -> float:
    """Return evaluations per second of this process's CPU; one *go* makes *answers* of them."""
    go()
    goes, begun = 0, time.process_time()
    while (spent := time.process_time() - begun) < for_s:
        go()
        goes += 1
    return goes * answers / spent


def tag_pass() -> tuple[Pass, Pass]:
    """Ours, and the same by `eval`; both on the hash of a queue entry."""
    matches = TagFilter().compile(Subscription(topic="T", expression="TagA || TagB", type="TAG")).match_entry
    codes = [tags_code(TAGS[number % len(TAGS)]) for number in range(MESSAGES)]
    code = compile("entry & 0xFFFFFFFF in hashes", "tags", "eval")
    names = {"hashes": frozenset(tags_code(tag) & 0xFFFFFFFF for tag in ("TagA", "TagB"))}

    def ours() -> None:
        for each in codes:
            matches(each, None)

    def by_eval() -> None:
        for each in codes:
            eval(code, names, {"entry": each})

    return ours, by_eval


def answer_pass(expressions: Sequence[str], raw: Sequence[bytes]) -> Pass:
    """Ours: every expression on each message, by the filter that the broker calls with the record."""
    filters = [Sql92Filter().compile(Subscription(topic="T", expression=each, type="SQL92")) for each in expressions]
    ready = [each.match_message for each in filters]
    records = [read_record(encode_record(topic="T", queue_id=0, body=b"x", properties=each)) for each in raw]

    def go() -> None:
        for each in records:
            for matches in ready:
                matches(each)

    return go


def eval_pass(sources: Sequence[str], raw: Sequence[bytes], *, ready: bool) -> Pass:
    """The same with `eval`, on maps that are *ready* or built first."""
    codes: list[CodeType] = [compile(each, "expression", "eval") for each in sources]
    maps = [decode(each) for each in raw]

    def of_ready() -> None:
        for each in maps:
            for code in codes:
                eval(code, {}, each)

    def of_raw() -> None:
        for each in raw:
            found = decode(each)
            for code in codes:
                eval(code, {}, found)

    return of_ready if ready else of_raw


class Bits:
    """Subscriptions with their bits, and the bit maps of messages."""

    def __init__(self, expressions: Sequence[str], raw: Sequence[bytes]) -> None:
        bloom = BloomFilter.for_groups(max(32, len(expressions)), ERROR_PERCENT)
        self._groups = [
            FilterData("T", f"G{number}", text, "SQL92", 0, 1, 0, bloom.bits_of(f"G{number}", "T"))
            for number, text in enumerate(expressions)
        ]
        self._matches = [compiled(text).matches for text in expressions]
        self._raw = raw
        self._maps = [self._map(each, bloom.byte_count) for each in raw]

    def _map(self, properties: bytes, byte_count: int) -> bytes:
        bits = 0
        for data, matches in zip(self._groups, self._matches, strict=True):
            if matches(properties):
                bits |= data.mask
        return bits.to_bytes(byte_count, "little")

    def making(self) -> Pass | None:
        """The bit map of each message, as the broker computes it; None above the broker's limit of expressions."""
        if sum(EACH_COSTS + len(data.expression) for data in self._groups) > MOST_COST:
            return None
        known = {data.expression: matches for data, matches in zip(self._groups, self._matches, strict=True)}
        bits_of = TopicBits(
            self._groups, lambda data: known[data.expression], EvaluationTime(lambda: 0.0), BitMapCounters()
        )

        def go() -> None:
            for each in self._raw:
                bits_of(each)

        return go

    def asking(self) -> None:
        """One go: each message for each subscription, by its bits first."""
        for bit_map, properties in zip(self._maps, self._raw, strict=True):
            for data, matches in zip(self._groups, self._matches, strict=True):
                if data.may_match(bit_map, 2):
                    matches(properties)


class Table:
    """Rates of several rounds."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, column: str, found: float) -> None:
        """Note one round."""
        self._found[row, column].append(found)

    def show(self, title: str, columns: Sequence[str], goals: dict[str, int]) -> bool:
        """Print medians; return whether the first column meets each goal."""
        print(f"\n{title:22}" + "".join(f"{column:>15}" for column in columns) + "      goal")
        good = True
        for row in dict.fromkeys(row for row, _ in self._found):
            values = [self._found.get((row, column)) for column in columns]
            cells = "".join(f"{statistics.median(each):15,.0f}" if each else f"{'-':>15}" for each in values)
            goal = goals.get(row)
            met = goal is None or (values[0] is not None and statistics.median(values[0]) >= goal)
            good = good and met
            verdict = "" if goal is None else f"{goal:10,}   {'good' if met else 'BELOW THE GOAL'}"
            print(f"{row:22}{cells}{verdict}")
        return good


def main() -> int:
    """Run the rounds and print the tables; return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--seconds", type=seconds(0.01), default=1.0, help="of CPU for each figure of a round")
    parser.add_argument("--subscriptions", type=whole(1), nargs="*", default=list(SUBSCRIPTIONS))
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one round of 0.1 s each")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.1
    raw = messages()
    answers, asked, made = Table(), Table(), Table()
    with tempfile.TemporaryDirectory(prefix="gantrymq-filters-") as scratch, ExitStack() as stack:
        java = None if options.no_java else stack.enter_context(JavaFilters(Path(scratch), tuning=()))
        for _ in range(options.rounds):
            for column, go in zip(("gantrymq raw", "eval ready"), tag_pass(), strict=True):
                answers.add("tag", column, rate(go, MESSAGES, options.seconds))
            for case in CASES:
                compare(answers, case.name, [case.expression], [case.source], raw, options.seconds, java)
            for count in options.subscriptions:
                several(asked, made, count, raw, options.seconds, java)
    goals = {"tag": TAG_GOAL, **{case.name: case.goal for case in CASES if case.goal}}
    good = answers.show("answers/s", COLUMNS, goals)
    asked.show("messages/s, for", (*COLUMNS, "gantrymq bits"), {})
    made.show("maps made/s, for", ("gantrymq raw",), {})
    return 0 if good else 1


def compare(
    table: Table,
    row: str,
    expressions: Sequence[str],
    sources: Sequence[str],
    raw: Sequence[bytes],
    for_s: float,
    java: JavaFilters | None,
) -> None:
    """Run one round of a row; return messages per second, each evaluated for every expression."""
    table.add(row, "gantrymq raw", rate(answer_pass(expressions, raw), len(raw), for_s))
    table.add(row, "eval raw", rate(eval_pass(sources, raw, ready=False), len(raw), for_s))
    table.add(row, "eval ready", rate(eval_pass(sources, raw, ready=True), len(raw), for_s))
    if java is not None:
        found = java.rate(for_s, expressions, raw)
        table.add(row, "java raw", found["whole"] / len(expressions))
        table.add(row, "java ready", found["decoded"] / len(expressions))


def several(
    asked: Table, made: Table, count: int, raw: Sequence[bytes], for_s: float, java: JavaFilters | None
) -> None:
    """Run one round for *count* subscriptions, each to a different value: at most one of them gets a message."""
    expressions = [f"shard = '{number}'" for number in range(count)]
    sources = [f"shard == '{number}'" for number in range(count)]
    row = f"{count:,} subscription{'s' if count > 1 else ''}"
    compare(asked, row, expressions, sources, raw, for_s, java)
    bits = Bits(expressions, raw)
    asked.add(row, "gantrymq bits", rate(bits.asking, len(raw), for_s))
    if (making := bits.making()) is not None:
        made.add(row, "gantrymq raw", rate(making, len(raw), for_s))


if __name__ == "__main__":
    sys.exit(main())
