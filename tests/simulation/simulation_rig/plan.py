"""The meaning of one seed: the machines, their work, and the faults."""

from __future__ import annotations

import random
from typing import Any

import attrs

TAGS = ("", "red", "green", "blue")
FAULTS = ("cut", "part", "slow", "refuse", "jump")
RESTARTS = ("stop", "crash", "crash_at_call", "name_server")
JUMPS_MS = (1_000, 60_000, 600_000, 86_400_000)
LOG_FILE_BYTES = (32 * 1024, 64 * 1024, 256 * 1024)


@attrs.frozen
class ProducerPlan:
    """One producer; it sends one thing after the other."""

    sends: int
    retries: int
    batches: float  # share of its sends
    oneways: float
    hasty: float  # share of messages that do not wait for the disk
    pause_s: float  # between two sends, at most
    timeout_s: float
    gathers: bool = False  # single sends, gathered by automatic batching, instead of batches


@attrs.frozen
class ConsumerPlan:
    """One consumer; it follows every queue of every topic."""

    expression: str
    suspend_ms: int
    max_count: int
    resumes: float  # probability, for each pull, of continuing from the committed offset


@attrs.frozen
class KindsPlan:
    """The client of every other kind (see `simulation_rig.kinds`)."""

    sends: int
    pause_s: float  # between two sends, at most


@attrs.frozen
class GroupPlan:
    """A group whose members share the queues (see `simulation_rig.sharing`)."""

    most: int  # members at a time
    moves: int  # joins, leaves and deaths
    pause_s: float  # between two of them, at most
    orderly: bool
    by_loop: bool  # otherwise by a handler, which may fail
    concurrency: int
    pull_batch: int
    failing: float  # share of deliveries that a handler refuses, at most twice a message


@attrs.frozen
class Plan:
    """A run."""

    seed: int
    store: str
    name_servers: int
    settings: dict[str, Any]
    topics: dict[str, int]  # queues; 0: created by the first message
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    faults: tuple[str, ...]  # in order
    pause_s: float  # between two faults, at most
    late: float  # share of deliveries that are late
    kinds: KindsPlan | None  # None if clocks are set: due messages could wait a day
    group: GroupPlan | None = None


def draw(seed: int) -> Plan:
    """The plan of *seed*."""
    rng = random.Random(f"{seed}/plan")
    store = "memory" if rng.random() < 0.2 else "mmap"
    possible = FAULTS if store == "memory" else (*FAULTS, *RESTARTS)
    plan = Plan(
        seed=seed,
        store=store,
        name_servers=rng.choice((1, 1, 2)),
        settings=_settings(rng, store),
        topics={f"T{number}": rng.choice((0, 1, 2, 4)) for number in range(rng.randint(1, 3))},
        producers=tuple(_gathering(_producer(rng), seed, number) for number in range(rng.randint(1, 3))),
        consumers=tuple(_consumer(rng) for _ in range(rng.randint(1, 2))),
        faults=tuple(rng.choices(possible, k=rng.randint(0, 8))),
        pause_s=rng.choice((0.3, 2.0, 8.0)),
        late=rng.choice((0.0, 0.01, 0.05)),
        kinds=None,
    )
    if store == "memory" or "jump" in plan.faults:
        return attrs.evolve(plan, group=_group(seed, failures=False))
    kinds = KindsPlan(rng.randint(5, 40), rng.choice((0.1, 1.0)))
    return attrs.evolve(plan, kinds=kinds, group=_group(seed, failures=True))


def _group(seed: int, *, failures: bool) -> GroupPlan | None:
    """Used in three of four runs; without *failures* no message is redelivered."""
    rng = random.Random(f"{seed}/group")
    by_loop = rng.random() < 0.4
    plan = GroupPlan(
        most=rng.choice((1, 2, 3, 5)),
        moves=rng.randint(0, 8),
        pause_s=rng.choice((0.5, 5.0, 25.0)),
        orderly=rng.random() < 0.4,
        by_loop=by_loop,
        concurrency=rng.choice((1, 4, 20)),
        pull_batch=rng.choice((1, 8, 32)),
        failing=rng.choice((0.0, 0.2)) if failures and not by_loop else 0.0,
    )
    return plan if rng.random() < 0.75 else None


def _settings(rng: random.Random, store: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "store": store,
        "flushDiskType": rng.choice(("SYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH")),
        "flushConsumerOffsetInterval": rng.choice((200, 5000)),
        "registerNameServerPeriod": rng.choice((10_000, 30_000)),
    }
    if store == "mmap":
        found |= {
            "mappedFileSizeCommitLog": rng.choice(LOG_FILE_BYTES),
            "mappedFileSizeConsumeQueue": 20 * rng.choice((10, 50, 1000)),
            "hotReadWindow": rng.choice((0, 4096, 1 << 20)),
            "maxOpenQueueFiles": rng.choice((1, 3, 100)),
            "flushConsumeQueueThoroughInterval": rng.choice((1000, 10_000)),
            "flushIntervalCommitLog": rng.choice((50, 500)),
        }
    return found


def _producer(rng: random.Random) -> ProducerPlan:
    return ProducerPlan(
        sends=rng.randint(5, 40),
        retries=rng.choice((0, 2)),
        batches=rng.choice((0.0, 0.2)),
        oneways=rng.choice((0.0, 0.2)),
        hasty=rng.choice((0.0, 0.3)),
        pause_s=rng.choice((0.01, 0.2, 1.0)),
        timeout_s=rng.choice((1.0, 3.0)),
    )


def _gathering(plan: ProducerPlan, seed: int, number: int) -> ProducerPlan:
    rng = random.Random(f"{seed}/gathering {number}")
    return attrs.evolve(plan, gathers=rng.random() < 0.5)


def _consumer(rng: random.Random) -> ConsumerPlan:
    return ConsumerPlan(
        expression=rng.choice(("*", "red", "red || blue")),
        suspend_ms=rng.choice((0, 500, 5000)),
        max_count=rng.choice((1, 8, 32)),
        resumes=rng.choice((0.0, 0.05)),
    )
