"""Every config file of every golden store: read, and written back byte for byte."""

import pytest
from golden_stores import SCENARIOS

from gantrymq.formats.config import (
    CONSUMER_OFFSETS,
    GROUPS,
    TOPICS,
    ConsumerOffsetsFile,
    GroupsFile,
    TopicsFile,
    pretty,
)
from gantrymq.loose_json import dumps, loads

COMPACT = ("transactionMetrics", "timermetrics")  # written without any white space
COMPACT_COPY = "delayOffset.json.bak"  # the same for a slave's copy of its master's delay offsets, until its first save
TABLES = {TOPICS: TopicsFile, GROUPS: GroupsFile, CONSUMER_OFFSETS: ConsumerOffsetsFile}

# groupTopicMap is a separate table in Java: names that share a hash bucket are in the order of their insertion.
OTHER_ORDER = ("clientops", "pop", "retry")


def config_files(scenario):
    return sorted(path for path in (scenario.store / "config").iterdir() if path.name != "timercheck")


def base(path):
    return path.name.removesuffix(".bak")


def java_text(name, members):
    """5.5.0 lays integer keys out in its own way."""
    return pretty(members, integer_lines=name == "v550").encode()


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_comes_out_as_it_was(golden, name):
    for path in config_files(golden(name)):
        data = path.read_bytes()
        compact = base(path) in COMPACT or (name, path.name) == ("ha/slave", COMPACT_COPY)
        assert (dumps(loads(data)) if compact else java_text(name, loads(data))) == data, path


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in OTHER_ORDER and name != "v497"])
def test_tables_come_out_as_they_were(golden, name):
    paths = [path for path in config_files(golden(name)) if base(path) in TABLES]
    assert paths
    for path in paths:
        table = TABLES[base(path)].from_json(loads(path.read_bytes()))
        assert java_text(name, table.to_json()) == path.read_bytes(), path


@pytest.mark.parametrize("name", OTHER_ORDER)
def test_tables_come_out_as_they_were_but_for_the_order_of_a_derived_one(golden, name):
    for path in config_files(golden(name)):
        if base(path) in TABLES:
            members = loads(path.read_bytes())
            again = TABLES[base(path)].from_json(members).to_json()
            for each in (members, again):
                for topics in each.get("groupTopicMap", {}).values():
                    topics.sort()
            assert again == members, path


def test_files_of_4_9_7_are_written_in_the_newer_form(golden):
    for path in config_files(golden("v497")):
        if base(path) in TABLES:
            members = loads(path.read_bytes())
            table = TABLES[base(path)].from_json(members)
            again = table.to_json()
            assert contains(again, members), path
            assert TABLES[base(path)].from_json(again) == table


def contains(more, less):
    """Whether every member of *less* is in *more* with the same value."""
    if isinstance(less, dict):
        return all(name in more and contains(more[name], value) for name, value in less.items())
    return more == less


def test_what_the_tables_say(golden):
    folder = golden("normal").store / "config"
    topics = TopicsFile.from_json(loads((folder / TOPICS).read_bytes())).topics
    assert {name: topics[name].read_queues for name in ("GoldenA", "GoldenB", "GoldenC", "Golden_D-8")} == {
        "GoldenA": 4,
        "GoldenB": 1,
        "GoldenC": 3,
        "Golden_D-8": 8,
    }
    groups = GroupsFile.from_json(loads((folder / GROUPS).read_bytes())).groups
    assert groups["CG_normal"].retry_max_times == 16
    offsets = ConsumerOffsetsFile.from_json(loads((folder / CONSUMER_OFFSETS).read_bytes())).offsets
    assert offsets["GoldenA@CG_normal"] == {0: 32, 1: 32, 2: 36, 3: 36}
