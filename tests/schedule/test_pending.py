"""Pending delayed messages: counts without reads, pages sorted by due time, and the command that lists them."""

from __future__ import annotations

import json
import random

import pytest

from gantrymq.errors import InvalidParameter
from gantrymq.remoting.command import request
from gantrymq_schedule.pending import PENDING, PendingRequests


async def ask(cluster, **fields):
    """Request 65001; its JSON."""
    service = next(each for each in cluster.plugins.services if each.name == "schedule")
    answer = await PendingRequests(service.pending).serve(request(PENDING, fields), None)
    assert answer.code == 0
    return json.loads(answer.body)


async def all_pages(cluster, **fields):
    found, place = [], ""
    for _ in range(1000):
        page = await ask(cluster, place=place, **fields)
        found += page["messages"]
        if page["place"] is None:
            return found
        place = page["place"]
    raise AssertionError("the pages do not end")


def test_nothing_waits(gantrymq_simulation):
    async def main(cluster):
        answer = await ask(cluster)
        assert (answer["messages"], answer["place"]) == ([], None)
        assert answer["sources"]["levels"] == {"waiting": 0, "levels": []}

    gantrymq_simulation(main)


@pytest.mark.parametrize("most", ["1", "7", "256"])
def test_pages_have_every_message_once_the_soonest_first(gantrymq_simulation, most):
    chance = random.Random(7)

    async def main(cluster):
        clock, sent = cluster.world.clock, []
        for topic in ("T", "U"):
            await cluster.create_topic(topic, 2)
        for number in range(120):
            level, topic = chance.randint(6, 9), chance.choice("TU")
            await cluster.send(topic, b"%d" % number, keys=str(number), system_properties={"DELAY": str(level)})
            sent.append((clock.now_ms() + (level - 4) * 60_000, str(number), topic))
            await clock.sleep(chance.random())
        sent.sort()
        found = await all_pages(cluster, most=most)
        assert [each["keys"] for each in found] == [number for _, number, _ in sent]
        assert all(abs(each["due_ms"] - due_ms) < 100 for each, (due_ms, *_) in zip(found, sent, strict=True))
        assert all(each["due_ms"] - each["stored_ms"] == (int(each["kind"][6:]) - 4) * 60_000 for each in found)
        of_u = [number for _, number, topic in sent if topic == "U"]
        assert [each["keys"] for each in await all_pages(cluster, most=most, topic="U")] == of_u
        until_ms = found[50]["due_ms"]
        soon = await all_pages(cluster, most=most, untilMs=str(until_ms))
        assert soon == [each for each in found if each["due_ms"] <= until_ms]
        levels = (await ask(cluster))["sources"]["levels"]
        assert levels["waiting"] == sum(each["waiting"] for each in levels["levels"]) == 120
        assert all(each["next_due_ms"] for each in levels["levels"])

    gantrymq_simulation(main, settings={"store": "mmap"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "stars"}, "source=stars is not a source of delays; there is levels"),
        ({"place": "1:2;3"}, "place=1:2;3 is not a valid place"),
        ({"most": "0"}, "most=0 is not between 1 and 256"),
        ({"untilMs": "soon"}, "untilMs=soon is not a whole number"),
    ],
)
def test_what_cannot_be_asked(gantrymq_simulation, fields, words):
    async def main(cluster):
        with pytest.raises(InvalidParameter, match=words):
            await ask(cluster, **fields)

    gantrymq_simulation(main)


def test_the_command_shows_them(gantrymq_broker_factory):
    pytest.importorskip("gantrymq_admin")
    from click.testing import CliRunner

    from gantrymq.cli import main

    running = gantrymq_broker_factory()
    running.create_topic("T", 1)
    words = ["message", "pending", "-n", running.cluster.namesrv]
    running.send("T", b"x", keys="k16", system_properties={"DELAY": "16"})
    assert "1 message waits (levels)" in CliRunner().invoke(main, words).stdout
    running.send("T", b"x", keys="k14", system_properties={"DELAY": "14"})
    done = CliRunner().invoke(main, [*words, "--output", "json"])
    assert done.exit_code == 0, done.stderr
    (broker,) = json.loads(done.stdout)["brokers"]
    assert [(each["keys"], each["kind"], each["topic"]) for each in broker["messages"]] == [
        ("k14", "level 14", "T"),
        ("k16", "level 16", "T"),
    ]
    assert broker["sources"]["levels"]["waiting"] == 2
    shown = CliRunner().invoke(main, [*words, "--max", "1"])
    assert "level 14" in shown.stdout
    assert "level 16" not in shown.stdout
    assert "2 messages wait (levels)" in shown.stdout
    none = CliRunner().invoke(main, [*words, "-t", "Other", "--output", "json"])
    assert json.loads(none.stdout)["brokers"][0]["messages"] == []


def test_a_broker_without_the_plugin_is_named(gantrymq_broker_factory):
    pytest.importorskip("gantrymq_admin")
    from click.testing import CliRunner

    from gantrymq.cli import main

    running = gantrymq_broker_factory({"plugins": "storage_memory,admin"})
    done = CliRunner().invoke(main, ["message", "pending", "-n", running.cluster.namesrv])
    assert done.exit_code == 1
    assert "pip install ./libs/store_files ./plugins/schedule" in done.stderr
