"""The jobs audit and stats: of live topics, of an archive, as commands."""

import json
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from planted_store import Planted
from small_store import START_MS

from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.audit import Limits, audit
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.report.page import moment
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels
from gantrymq_testing.running_broker import RunningBroker

audit_module = import_module("gantrymq_spark.commands.audit")
stats_module = import_module("gantrymq_spark.commands.stats")
pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,admin", "store": "mmap"}


def places(frame):
    return sorted((row.check, row.brokerName, row.topic, row.queueId, row.queueOffset, row["count"]) for row in frame)


def test_live_topics(session, tmp_path):
    with RunningBroker(tmp_path / "broker", SETTINGS) as broker:
        for topic, queues in (("Orders", 2), ("%DLQ%slow", 1)):
            broker.create_topic(topic, queues)
        for number in range(40):
            broker.put("Orders", b"%d" % number, queue_id=number % 2, properties={"UNIQ_KEY": f"U{number % 39}"})
        broker.put("%DLQ%slow", b"given up", queue_id=0)

        async def commit():
            async with broker.consumer("slow") as consumer:
                for queue in await consumer.queues("Orders"):
                    await consumer.pull(queue, 0)  # a broker takes offsets of groups that it knows
                    await consumer.commit(queue, 20 if queue.queue_id else 3)

        broker.run(commit())
        given = Input(topics=("Orders",), namesrv=broker.namesrv)
        found = audit(session, given, Limits(0, lag=10))
        rows = found.findings.collect()
        name = rows[0].brokerName
        assert places(rows) == [
            ("dead_letter", name, "%DLQ%slow", 0, 0, 1),
            ("key.duplicate", name, "Orders", 1, 19, 1),
            ("lag", name, "Orders", 0, 3, 17),
        ]
        assert [text.partition(":")[0] for text in found.unknown] == [
            *("log.damaged", "transaction.open, transaction.orphan", "delay.late, delay.lost"),
        ]
        assert found.hours.agg({"messages": "sum"}).first()[0] == 40
        found.close()


def test_an_archive(session, tmp_path):
    planted = Planted(tmp_path / "store")
    planted.orders(20)
    offset = planted.store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=offset + 2)
    planted.orders(20)
    planted.store.write()
    archive(session, Input(store=str(planted.store.root)), str(tmp_path / "archive"))
    found = audit(session, Input(archive=str(tmp_path / "archive")), Limits(planted.store.last_ms))
    rows = found.findings.collect()
    assert [(row.check, row.topic, row.queueOffset, row["count"]) for row in rows] == [
        ("queue.gap", "Bills", offset, 2)
    ]
    assert [text.partition(":")[0] for text in found.unknown][::4] == ["body.crc", "lag"]
    found.close()


@pytest.fixture
def root(tmp_path):
    planted = Planted(tmp_path / "store")
    planted.orders(30)
    planted.store.write()
    planted.store.root.joinpath("config", "consumerOffset.json").write_text('{"offsetTable":{"Orders@g":{0:1}}}')
    return planted.store.root


@pytest.fixture
def run(session, monkeypatch):
    """Runs a command in the session that is there."""
    for module in (audit_module, stats_module):
        monkeypatch.setattr(module, "job_session", lambda *_: nullcontext(session))
    return lambda command, *words: CliRunner().invoke(command, [str(word) for word in words])


def test_the_command_audit(session, run, root, tmp_path):
    sound = run(audit_module.audit, "--store", root)
    assert (sound.exit_code, "nothing is wrong with 60 messages in 2 queues" in sound.stdout) == (0, True)
    told = run(audit_module.audit, "--store", root, "--max-lag", 5, "--output", "json", "--report", tmp_path / "report")
    assert told.exit_code == 1
    said = json.loads(told.stdout)
    assert (said["faults"], said["messages"], list(said["checks"])) == (1, 60, ["lag"])
    assert [(each["check"], each["count"]) for each in said["findings"]] == [("lag", 29)]
    assert session.read.parquet(str(tmp_path / "report" / "findings.parquet")).count() == 1
    report = (tmp_path / "report" / "report.html").read_text()
    assert "group g is 29 messages behind in Orders/0" in report
    times = [moment(ms * 1000) for ms in (START_MS, START_MS + 59 * 500)]
    assert f"{times[0]} to {times[1]}<" in report
    assert f">messages in an hour, {times[0][:14]}00 UTC<" in report  # one hour: bars, not lines


def test_the_command_stats(run, root, tmp_path):
    told = run(stats_module.stats, "--store", root, "--by", "minute", "--output", "json", "--property", "UNIQ_KEY")
    assert told.exit_code == 0, told.output
    said = json.loads(told.stdout)
    assert (said["total"]["messages"], said["counts"]["values"]) == (60, 60)
    assert [(row["topic"], row["messages"], row["queues"], row["skew"]) for row in said["topics"]] == [
        *(("Bills", 30, 1, 1.0), ("Orders", 30, 1, 1.0)),
    ]
    assert said["total"]["bytes"] == sum(row["bytes"] for row in said["queues"])
    assert sum(point["messages"] for point in said["rates"]["Bills"]) == 30
    shown = run(stats_module.stats, "--store", root, "--top", 1, "--report", tmp_path / "report")
    assert shown.exit_code == 0
    page = Path(tmp_path / "report" / "stats.html").read_text()
    assert "These are 1 of 2" in page and page.count("<svg") == 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--store", "X", "--tags", "a"], "does not support --tags and --sql92"),
        (["--topic-pattern", "("], "'(' is not a regular expression"),
        (["--store", "X", "--late", "soon"], "'soon' is not a duration"),
        (["--store", "X", "--max-lag", "-1"], "-1 is not in the range"),
        (["--store", "X", "--report", "/proc/none"], "--report: /proc/none cannot be written"),
        (["--store", "/no/store"], "/no/store is not a folder; give the store's folder"),
        (["--store", "X", "--archive", "Y"], "give one of --store and --archive"),
        ([], "no messages are named"),
        (["--store", "/tmp", "--option", "colums=a"], "the source gantrymq.store has no option colums"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(run, words, sentence):
    told = run(audit_module.audit, *words)
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert "Traceback" not in told.output


def test_offsets_that_cannot_be_read_are_told(run, root):
    (root / "config" / "consumerOffset.json").write_text("{")
    told = run(audit_module.audit, "--store", root)
    assert told.exit_code == 0
    assert "not known: lag: " in told.stderr


def test_delays_of_a_broker_with_its_own_levels(session, run, tmp_path):
    planted = Planted(tmp_path / "store")
    planted.delayed("D1")
    planted.orders(10)
    planted.add(key="D1", more={"REAL_TOPIC": "Orders", "DELAY": "1"})  # 10.5 s later
    planted.store.write()
    root = planted.store.root
    assumed = run(audit_module.audit, "--store", root, "--output", "json")
    assert (assumed.exit_code, [each["check"] for each in json.loads(assumed.stdout)["findings"]]) == (
        1,
        ["delay.late"],
    )
    assert any("--delay-levels" in sentence for sentence in json.loads(assumed.stdout)["unknown"])
    named = run(audit_module.audit, "--store", root, "--delay-levels", "10s 20s", "--output", "json")
    assert (named.exit_code, json.loads(named.stdout)["unknown"][1:]) == (0, [])
    (root / DELAY_LEVELS).write_bytes(DelayLevels.of("10s 20s").pack())
    assert run(audit_module.audit, "--store", root).exit_code == 0
    refused = run(audit_module.audit, "--archive", tmp_path, "--delay-levels", "1s")
    assert (refused.exit_code, "give --delay-levels with --store" in refused.output) == (2, True)
    malformed = run(audit_module.audit, "--store", root, "--delay-levels", "soon")
    assert (malformed.exit_code, "messageDelayLevel" in malformed.output) == (2, True)
