"""Planning an import of definitions, and applying it.

    document, cluster -> plan -> apply -> a result for each change

A plan reads only. Applying continues after a failed change, so one refused definition does not keep back the others;
a repeated import makes the remaining changes. A broker may accept a request and ignore a part (RocketMQ 4.9 has no
attributes), so changed brokers are read again, and values that they did not keep are failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq.errors import GantryError
from gantrymq_admin.definitions.cluster_tables import ClusterTables, Tables, mark_ordered, read_cluster, read_tables
from gantrymq_admin.definitions.difference import ORDER_CONFIG, BrokerChange, Change, Difference, compare, sources_of
from gantrymq_admin.definitions.document import Document
from gantrymq_admin.definitions.fields import KINDS, TOPIC, UNREADABLE, Kind, Values
from gantrymq_admin.topics import hidden_messages

AT_ONCE: Final = 16  # concurrent requests; a Java broker changes definitions in this many threads

_STEP: Final = 100  # changes that are looked at in one step of the event loop

_KIND: Final[Mapping[str, Kind]] = {kind.word: kind for kind in KINDS}

Given = TypeVar("Given")
Got = TypeVar("Got")


@attrs.frozen
class Plan:
    """The changes of an import, and the masters that they are sent to."""

    difference: Difference
    addresses: Mapping[str, str]  # masters by broker name
    ordered: frozenset[str]  # topics with an order configuration, once the plan is applied


@attrs.frozen
class Result:
    """The outcome of one change."""

    change: Change
    problems: Mapping[str, str]  # a sentence for each broker that did not accept or keep it ("": name servers)
    begun: bool = True  # False: the import was stopped before

    @property
    def word(self) -> str:
        """One of: done, failed, stopped."""
        return "stopped" if not self.begun else "failed" if self.problems else "done"


async def plan_import(
    admin: Admin,
    document: Document,
    cluster: str | None = None,
    moves: Sequence[tuple[str, str]] = (),
    run: Callable[[Callable[[], Difference]], Awaitable[Difference]] | None = None,
) -> Plan:
    """Compare *document* with a cluster.

    Args:
        admin: of the cluster.
        document: to import.
        cluster: to import into; not needed if there is only one.
        moves: pairs of brokers, as in `sources_of`.
        run: runs the comparison in a thread; None: it is made at once.

    Raises:
        DefinitionsInvalid: the brokers of the document do not fit.
        as `read_cluster`: all other errors.
    """
    found = await read_cluster(admin, cluster)
    comparison = partial(compare, document, found, sources_of(document, tuple(found.brokers), moves))
    difference = comparison() if run is None else await run(comparison)

    async def look(change: Change) -> Change:
        return await _with_hidden(admin, found, change)

    changes = await _bounded(difference.changes, look)
    ordered = {*found.order_configs, *(change.name for change in changes if change.word == ORDER_CONFIG)}
    return Plan(attrs.evolve(difference, changes=tuple(changes)), found.addresses, frozenset(ordered))


async def apply_plan(
    admin: Admin,
    plan: Plan,
    *,
    fewer_queues: bool = False,
    progress: Callable[[int], object] = lambda done: None,
    stop_asked: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Apply the changes of *plan*; topics and groups first, then the order configurations of topics.

    Args:
        admin: of the cluster.
        plan: of `plan_import`.
        fewer_queues: reduce read queues although messages are in them, or will be; otherwise such a change fails.
        progress: called with the number of changes that have ended.
        stop_asked: whether no further change is to be begun.

    Returns:
        A result for each change, in order.
    """
    ended = 0
    problems: dict[tuple[str, str], dict[str, str]] = {}  # by change, then by broker

    async def one(change: Change) -> None:
        nonlocal ended
        if stop_asked():
            return
        failed = problems.setdefault((change.word, change.name), {})
        for each in change.at:
            problem = await _apply(admin, plan, change, each, fewer_queues)
            if problem is not None:
                failed[each.broker] = problem
        ended += 1
        progress(ended)

    changes = plan.difference.changes
    await _bounded([each for each in changes if each.word != ORDER_CONFIG], one)
    await _bounded([each for each in changes if each.word == ORDER_CONFIG], one)
    begun = [change for change in changes if (change.word, change.name) in problems]
    for change, broker, problem in await _not_kept(admin, plan, begun):
        problems[change.word, change.name].setdefault(broker, problem)
    return [
        Result(change, problems.get(place, {}), begun=place in problems)
        for change in changes
        for place in [(change.word, change.name)]
    ]


async def _apply(admin: Admin, plan: Plan, change: Change, each: BrokerChange, fewer_queues: bool) -> str | None:
    """Change one definition at one broker; return why that failed, or None."""
    if each.hidden is not None and not fewer_queues:
        return f"not reduced, because no consumer would receive {each.hidden}; --fewer-queues reduces it"
    try:
        if change.word == ORDER_CONFIG:
            await admin.put_kv_value(ORDER_NAMESPACE, change.name, each.after["queues"])
            return None
        kind, address = _KIND[change.word], plan.addresses[each.broker]
        config = kind.make(change.name, {**each.after, "attributes": _signed(each.before, each.after)})
        await (admin.create_topic if kind is TOPIC else admin.create_group)(address, config)
        for topic, readable in _readable(each).items():
            await admin.set_topic_readable(address, change.name, topic, readable=readable)
    except GantryError as problem:
        return str(problem)
    return None


def _readable(each: BrokerChange) -> dict[str, bool]:
    """Return the topics that a group is to be allowed or forbidden to read."""
    before = set(each.before.get(UNREADABLE, ())) if each.before is not None else set()
    after = set(each.after.get(UNREADABLE, ()))
    return {topic: topic not in after for topic in sorted(before ^ after)}


def _signed(before: Values | None, after: Values) -> dict[str, str]:
    """Return the changes of attributes as requests name them.

    Unchanged ones are omitted: a broker refuses to set some attributes of an existing topic, even to the same value.
    """
    had: Mapping[str, str] = {} if before is None else before["attributes"]
    wanted: Mapping[str, str] = after["attributes"]
    changed = {f"+{name}": text for name, text in wanted.items() if had.get(name) != text}
    return changed | {f"-{name}": "" for name in had if name not in wanted}


async def _not_kept(admin: Admin, plan: Plan, changes: Sequence[Change]) -> list[tuple[Change, str, str]]:
    """Read changed brokers again; return a broker and a sentence for each change that a broker does not have."""
    changed = sorted({each.broker for change in changes for each in change.at if each.broker})
    tables: dict[str, Tables | GantryError] = {}
    for broker in changed:
        try:
            tables[broker] = await read_tables(admin, plan.addresses[broker])
        except GantryError as problem:
            tables[broker] = problem
    found = []
    for number, change in enumerate(changes):
        if number % _STEP == 0:
            await asyncio.sleep(0)
        for each in change.at:
            if each.broker and (sentence := _lost(plan, change, each, tables[each.broker])):
                found.append((change, each.broker, sentence))
    return found


def _lost(plan: Plan, change: Change, each: BrokerChange, tables: Tables | GantryError) -> str | None:
    if isinstance(tables, GantryError):
        return f"accepted, but it cannot be verified: {tables}"
    kind = _KIND[change.word]
    now = tables[kind].get(change.name)
    if now is None:
        return "accepted, but the broker does not have it"
    fields = kind.differing(each.after, mark_ordered(kind, change.name, now, plan.ordered))
    return f"accepted, but not kept: {', '.join(fields)}; its version may not have this" if fields else None


async def _with_hidden(admin: Admin, found: ClusterTables, change: Change) -> Change:
    """Return the change with the messages that it hides."""
    if change.word != TOPIC.word:
        return change

    async def one(each: BrokerChange) -> BrokerChange:
        if each.before is None or each.after["read_queues"] >= each.before["read_queues"]:
            return each
        before, after = (TOPIC.make(change.name, values) for values in (each.before, each.after))
        hidden = await hidden_messages(admin, found.addresses[each.broker], before, after)
        return attrs.evolve(each, hidden=hidden)

    return attrs.evolve(change, at=tuple([await one(each) for each in change.at]))


async def _bounded(given: Sequence[Given], work: Callable[[Given], Awaitable[Got]]) -> list[Got]:
    """Call *work* for each of *given*, AT_ONCE at a time; return the results in order.

    Thousands of tasks at once, or as many calls without a request, would be one long step of the event loop.
    """
    numbered = iter(enumerate(given))
    results: dict[int, Got] = {}

    async def worker() -> None:
        for number, each in numbered:
            results[number] = await work(each)
            if number % _STEP == 0:
                await asyncio.sleep(0)

    workers = [asyncio.ensure_future(worker()) for _ in range(min(AT_ONCE, len(given)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
    return [results[number] for number in range(len(given))]


def report_of(difference: Difference, dry_run: bool, results: Sequence[Result] | None) -> dict[str, Any]:
    """Return a difference, and the results of its changes if they were made, for JSON."""
    return {
        "cluster": difference.cluster,
        "dry_run": dry_run,
        "changes": [
            {
                "kind": change.word,
                "name": change.name,
                "action": "add" if change.adds else "change",
                "at": [_broker_json(each) for each in change.at],
                "result": None if results is None else results[number].word,
                "problems": None if results is None else results[number].problems,
            }
            for number, change in enumerate(difference.changes)
        ],
        "unchanged": difference.unchanged,
        "only_in_cluster": [
            {"kind": each.word, "name": each.name, "brokers": each.brokers} for each in difference.only_there
        ],
        "not_compared": difference.not_compared,
        "own": difference.own,
    }


def _broker_json(each: BrokerChange) -> dict[str, Any]:
    return {
        "broker": each.broker or None,
        "action": "add" if each.before is None else "change",
        "fields": {
            name: {"before": None if each.before is None else each.before[name], "after": each.after[name]}
            for name in each.fields
        },
        "hidden_messages": None if each.hidden is None else each.hidden.messages,
    }
