"""``gantrymq bench`` at a broker: the documents, and that it takes away what it made."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client

for each in ("filter_tag", "storage_memory"):
    pytest.importorskip(f"gantrymq_{each}")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    from gantrymq_testing.running_broker import RunningBroker

    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    broker.create_topic("Mine", 2)
    yield broker
    broker.stop()


def bench(running, *words):
    done = CliRunner().invoke(main, ["bench", *words, "-n", running.namesrv])
    assert done.exit_code == 0, done.output
    return done


def left(running):
    """Topics and groups of benchmarks that are still there."""

    async def work():
        async with Client(running.namesrv) as client, client.admin as admin:
            groups = await admin.groups(running.broker_address)
            return [name for name in (*await admin.topics(), *groups) if "GantryMQBench" in name]

    return running.run(work())


def test_sends_are_measured_in_every_way(running):
    modes = ("sync", "async", "oneway", "batch")
    words = [word for mode in modes for word in ("--mode", mode)]
    done = bench(running, "produce", *words, "--in-flight", "2", "--count", "64", "--output", "json")
    found = json.loads(done.stdout)
    assert [(cell["mode"], cell["messages"]) for cell in found["cells"]] == [(mode, 64) for mode in modes]
    for cell in found["cells"]:
        assert cell["messages_per_s"] > 0
        assert 0 < cell["p50_ms"] <= cell["p99_ms"] <= cell["max_ms"]
        assert cell["client_cpu_us_per_message"] > 0
    assert [broker["flush"] for broker in found["clusters"][0]["brokers"]] == ["SYNC_FLUSH"]
    assert (found["measured"], found["rounds"], found["ratios"]) == ("produce", 1, [])
    assert "topic GantryMQBench-" in done.stderr
    assert left(running) == []


def test_sizes_and_calls_under_way_make_cells(running):
    words = ("--size", "10", "--size", "5000", "--in-flight", "1", "--in-flight", "4", "--count", "8")
    cells = json.loads(bench(running, "produce", *words, "--output", "json").stdout)["cells"]
    assert [(each["body_bytes"], each["in_flight"]) for each in cells] == [(10, 1), (10, 4), (5000, 1), (5000, 4)]


def test_a_topic_that_is_named_is_used_and_stays(running):
    done = bench(running, "produce", "-t", "Mine", "--in-flight", "1", "--count", "5")
    assert "topic GantryMQBench" not in done.stderr
    assert "sync" in done.stdout

    async def work():
        async with Client(running.namesrv) as client, client.admin as admin:
            return sum(each.max_offset for each in (await admin.topic_status("Mine")).values())

    assert running.run(work()) == 5


def test_what_is_kept_is_there_and_has_the_messages(running):
    bench(running, "produce", "--keep", "--in-flight", "1", "--count", "7")
    (name,) = left(running)

    async def work():
        async with Client(running.namesrv) as client, client.admin as admin:
            held = sum(each.max_offset for each in (await admin.topic_status(name)).values())
            await admin.delete_topic(name)
            return held

    assert running.run(work()) == 7


def test_a_backlog_and_single_messages_are_measured(running):
    done = bench(running, "consume", "--count", "500", "--single", "20", "--output", "json")
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["messages"] >= 499
    assert cell["messages_per_s"] > 0
    assert cell["first_ms"] > 0
    assert 0 < cell["p50_ms"] <= cell["max_ms"]
    assert left(running) == []


def test_two_clusters_take_turns_and_are_compared(running):
    words = ("--vs", f"{running.namesrv};", "--in-flight", "2", "--count", "20")
    done = bench(running, "produce", *words, "--output", "json")
    found = json.loads(done.stdout)
    assert [cell["round"] for cell in found["cells"]] == [1, 1, 2, 2, 3, 3]
    (ratio,) = found["ratios"]
    assert 0 < ratio["least"] <= ratio["median"] <= ratio["greatest"]
    shown = bench(running, "produce", *words)
    assert "round 3 of 3" in shown.stderr
    assert "Greatest" in shown.stdout
    assert left(running) == []


def test_an_unknown_topic_is_reported(running):
    done = CliRunner().invoke(main, ["bench", "consume", "-c", "Nowhere", "-n", running.namesrv, "--output", "json"])
    assert done.exit_code == 1
    assert "Nowhere" in json.loads(done.stdout)["message"]
