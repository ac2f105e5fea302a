"""storage_mmap on the index of Java's stores: used unchanged, built if missing, and queried for every key."""

import asyncio
import shutil
from inspect import isawaitable

import pytest
from golden_stores import SCENARIOS
from mmap_stores import contents, with_open_store
from test_index_files import keys_of

from gantrymq.formats.record import iter_records

CLEAN = [name for name in SCENARIOS if name not in ("crash/killed", "crash/torn")]
# Ours has no entries for tags (5.5.0), repeats no message, and cannot know deleted parts of the log.
BUILT_OTHERWISE = ("v550", "crash/recovered", "cleaned/cleaned")


async def ask(store, topic, key, window=(0, 1 << 62), limit=64):
    """Log offsets of the answer, or why there are none; waits until the index is up to date."""
    while True:
        result = store.query(topic, key, *window, limit)
        if isawaitable(result):
            result = await result
        if "being caught up" not in result.problem:
            break
        await asyncio.sleep(0)
    return [record.log_offset for data in result.records for record in iter_records(data)], result.problem


def expected(scenario):
    """Topic and key to log offsets, for the records of the log."""
    found = {}
    for topic, key, log_offset, _ in keys_of(scenario):
        if not key.startswith(b"T#"):
            offsets = found.setdefault((topic, key.decode()), [])
            if log_offset not in offsets:
                offsets.append(log_offset)
    return found


def index_of(scenario):
    """Contents of the index files, oldest first; their names are times."""
    return [data for _, data in sorted(contents(scenario.store / "index").items())]


async def settle(store, report):
    await ask(store, "no-topic", "no-key")


@pytest.mark.parametrize("name", CLEAN)
def test_an_index_that_java_closed_stays_as_it_was(golden_copy, name):
    scenario = golden_copy(name)
    before = contents(scenario.store / "index")
    with_open_store(scenario, settle)
    assert contents(scenario.store / "index") == before
    assert not (scenario.store / "recovered").exists()


@pytest.mark.parametrize("name", [name for name in CLEAN if name not in BUILT_OTHERWISE])
def test_an_index_that_is_missing_is_built_as_java_built_it(golden_copy, name):
    scenario = golden_copy(name)
    before = index_of(scenario)
    shutil.rmtree(scenario.store / "index")
    with_open_store(scenario, settle)
    assert index_of(scenario) == before


def test_an_index_that_ends_early_is_caught_up(golden_copy):
    scenario = golden_copy("normal")
    before = index_of(scenario)
    for path in sorted((scenario.store / "index").iterdir())[2:]:
        path.unlink()
    with_open_store(scenario, settle)
    assert index_of(scenario) == before


def test_the_index_of_a_killed_broker_is_built_again(golden, golden_copy):
    scenario = golden_copy("crash/killed")
    with_open_store(scenario, settle)
    before = contents(golden("crash/killed").store / "index")
    assert index_of(scenario) == [data for _, data in sorted(before.items())]
    after = contents(scenario.store / "index")
    assert len(after.keys() & before.keys()) == len(before) - 1  # the checkpoint knew the full one
    assert not list(scenario.store.glob("recovered/*/index"))


def test_the_index_of_a_torn_log_holds_what_is_left(golden, golden_copy):
    scenario = golden_copy("crash/torn")

    async def look(store, report):
        await settle(store, report)
        for (topic, key), offsets in expected(golden("crash/torn")).items():
            assert (await ask(store, topic, key))[0] == offsets[-64:]

    with_open_store(scenario, look)


@pytest.mark.parametrize("name", CLEAN)
def test_every_message_is_found_by_each_of_its_keys(golden_copy, name):
    scenario = golden_copy(name)

    async def look(store, report):
        for (topic, key), offsets in expected(scenario).items():
            assert (await ask(store, topic, key))[0] == offsets[-64:], (topic, key)

    with_open_store(scenario, look)
