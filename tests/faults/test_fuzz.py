"""Recorded requests, corrupted at random by seed, against a broker and a name server: no crash, no hang, no growth.

By default 10,000 frames, with ``-m long`` 200,000, half of them for each server, a thousand to a seed. A failure
names kind and seed; $GANTRYMQ_SEEDS runs these seeds only. fuzz_rig.py has the checks of a round.
"""

from __future__ import annotations

import gc
import os
import random
import tracemalloc

import pytest
from frame_mutations import MUTATIONS, mutated, recorded
from fuzz_rig import FRAMES, Round

from gantrymq.broker.settings import SCHEMA
from gantrymq.plugins import Plugins, load_plugins

KINDS = ("broker", "ns")
CHOSEN = [int(seed) for seed in os.environ.get("GANTRYMQ_SEEDS", "").replace(",", " ").split()]
USUAL = range(1, 6)
LONG = range(1, 101)
GROWTH_BYTES = 2 << 20  # total memory that rounds may leave allocated, in caches and interned names


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    gc.collect()  # tasks of servers that earlier tests killed are logged when they are collected: not in a round
    return load_plugins("filter_tag,storage_mmap", reserved=SCHEMA)


def check(kind: str, seed: int, plugins: Plugins) -> int:
    fuzzed = Round(kind, seed, plugins)
    problems = fuzzed.run()
    if problems:
        found = "\n".join(problems[:10])
        replay = f"GANTRYMQ_SEEDS={seed} python -m pytest tests/faults/test_fuzz.py -k {kind}"
        pytest.fail(f"{kind}, seed {seed}; replay it with: {replay}\n{found}", pytrace=False)
    return fuzzed.sent


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in KINDS for seed in CHOSEN or USUAL])
def test_spoilt_frames_break_nothing(kind, seed, plugins):
    assert check(kind, seed, plugins) >= FRAMES


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_leave_nothing_in_memory(kind, plugins):
    assert grown(kind, range(1, 3), range(3, 7), plugins) < GROWTH_BYTES


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_thousand_spoilt_frames_each(kind, plugins):
    assert grown(kind, LONG[:5], LONG[5:], plugins) < GROWTH_BYTES


def grown(kind: str, first: range, others: range, plugins: Plugins) -> int:
    """Bytes still in use after *others* that were not in use before; *first* warms caches up."""
    for seed in first:
        check(kind, seed, plugins)
    gc.collect()
    tracemalloc.start()
    try:
        for seed in others:
            check(kind, seed, plugins)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_mutations_are_the_same_for_a_seed_and_differ_between_seeds(kind):
    def some(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [mutated(rng, recorded()[kind]) for _ in range(200)]

    assert some(1) == some(1)
    assert some(1) != some(2)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_every_mutation_copes_with_frames_that_are_spoilt_already(mutation):
    rng, frames = random.Random(1), recorded()["ns"]
    for _ in range(200):
        frame = rng.choice(frames)
        assert isinstance(mutation(rng, frame[: rng.randrange(len(frame))], frames), bytes)
