"""The audit as a job of Spark: planted faults and nothing else, and Java's stores; statistics beside it."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
sys.path.append(str(Path(__file__).parents[1] / "store_tools"))

from click.testing import CliRunner
from test_audit import HOUR_MS, TOLD, Planted

from gantrymq.errors import ConfigError
from gantrymq_spark import register
from gantrymq_spark.commands import audit as audit_command
from gantrymq_spark.commands import stats as stats_command
from gantrymq_spark.jobs.audit import Limits, audit
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.jobs.stats import STATS_COLUMNS, stats

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark):
    register(spark)
    return spark


@pytest.fixture
def kept_session(session, monkeypatch):
    """Commands use the session of the run, and do not end it."""
    from contextlib import contextmanager

    @contextmanager
    def same(job, master, conf):
        yield session

    monkeypatch.setattr(audit_command, "job_session", same)
    monkeypatch.setattr(stats_command, "job_session", same)
    return session


def faults_of(found):
    return sorted(
        (row.check, row.topic, row.queue_offset, row["count"]) for row in found.findings.collect() if row.fault
    )


def with_ten_faults(root):
    """A store, and what an audit has to say of it."""
    planted = Planted(root)
    planted.sound()
    told = []

    def tell(check, topic, offset, count=1):
        told.append((check, topic, offset, count))

    bills = planted.store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=bills + 3)  # 1: three offsets without a record
    tell("queue.gap", "Bills", bills, 3)
    planted.store.next["Bills", 1] = bills + 4
    for offset in (0, 1, 2, 1):  # 2: an offset that is there again
        planted.add("Twice", 0, queue_offset=offset)
    tell("queue.duplicate", "Twice", 1)
    for offset in (0, 2, 1):  # 3: behind a later one
        planted.add("Turned", 0, queue_offset=offset)
    tell("queue.order", "Turned", 1)
    planted.add("Orders", 0, key="U0003")  # 4: a key at two places
    tell("key.duplicate", "Orders", planted.store.next["Orders", 0] - 1)
    _, offset = planted.half("T9")  # 5: nobody ends it
    tell("transaction.open", "RMQ_SYS_TRANS_HALF_TOPIC", offset)
    planted.commit("T8", 5)  # 6: its half message is not there
    tell("transaction.orphan", "Orders", planted.store.next["Orders", 0] - 1)
    due_ms = planted.delayed("D9") + 1000
    planted.orders()
    planted.delivered("D9", due_ms, late_ms=HOUR_MS)  # 7: late
    tell("delay.late", "Orders", planted.store.next["Orders", 0] - 1)
    for key in ("U0001", "U0004"):
        planted.add("%DLQ%group", key=key)  # 8: given up
    tell("dead_letter", "%DLQ%group", 0, 2)
    spoilt = planted.add("Spoilt", 0, body=b"as it was sent")  # 9: damaged
    tell("log.damaged", "", -1, 0)
    planted.orders()
    planted.store.write()
    planted.store.spoil_log(spoilt + 90, b"?")
    (root / "config").mkdir(exist_ok=True)  # 10: a group that is behind
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@slow":{0:2},"Orders@quick":{0:20}}}')
    tell("lag", "Orders", 2, planted.store.next["Orders", 0] - 2)
    return sorted(told)


@pytest.mark.parametrize("split", ["700", "64m"])
def test_ten_planted_faults_and_nothing_else(session, tmp_path, split):
    told = with_ten_faults(tmp_path / "store")
    given = Input(store=str(tmp_path / "store"), options={"maxBytesPerPartition": split})
    found = audit(session, given, Limits(lag=13, open_ms=0))
    assert faults_of(found) == told
    assert len(told) == 10
    assert found.unknown == ()


@pytest.mark.parametrize(
    "name", ["normal", "retry", "transaction", "delay", "mqadmin", "crash/recovered", "innerbatch"]
)
def test_java_s_stores(session, golden, name):
    found = audit(session, Input(store=str(golden(name).store)), Limits(lag=1 << 40))
    assert {row.check for row in found.findings.collect() if row.fault} == TOLD.get(name, set())


def test_a_crc_by_itself(session, tmp_path):
    planted = Planted(tmp_path / "store")
    planted.sound()
    offset = planted.store.next["Orders", 0]
    place = planted.add(body=b"as it was sent")
    planted.orders()
    planted.store.write()
    planted.store.spoil_log(place + 90, b"?")
    found = audit(session, Input(store=str(tmp_path / "store"), options={"checkCrc": "false"}))
    assert faults_of(found) == [("body.crc", "Orders", offset, 1)]


def test_an_audit_wants_whole_queues(session):
    with pytest.raises(ConfigError, match="leave --tags away"):
        audit(session, Input(store="/store", tags="a"))


def test_the_command_writes_a_report_and_its_exit_code_tells(kept_session, tmp_path):
    with_ten_faults(tmp_path / "store")
    folder = tmp_path / "report"
    arguments = ["--store", str(tmp_path / "store"), "--most-lag", "13", "--open-ms", "0", "--report", str(folder)]
    done = CliRunner().invoke(audit_command.audit, arguments)
    assert done.exit_code == 1, done.output
    assert "10 faults" in done.output
    text = (folder / "report.html").read_text()
    assert "10 faults were found." in text
    assert text.count("<svg") == 2
    assert "queue.gap" in text and "http://" not in text.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")
    assert kept_session.read.parquet(str(folder / "findings.parquet")).where("fault").count() == 10
    said = CliRunner().invoke(audit_command.audit, [*arguments[:6], "--output", "json"])
    assert json.loads(said.stdout)["faults"] == 10


def test_a_sound_store_ends_with_0(kept_session, tmp_path):
    planted = Planted(tmp_path / "store")
    planted.sound()
    planted.store.write()
    done = CliRunner().invoke(audit_command.audit, ["--store", str(tmp_path / "store")])
    assert (done.exit_code, done.output.strip()) == (0, "nothing is wrong")


def test_statistics(kept_session, golden, tmp_path):
    store = str(golden("normal").store)
    rows = messages(kept_session, Input(store=store)).collect()
    found = stats(messages(kept_session, Input(store=store), STATS_COLUMNS), step_s=60)
    topics = {row.topic: row for row in found.topics.collect()}
    for topic, row in topics.items():
        own = [each for each in rows if each.topic == topic]
        sizes = sorted(each.storeSize for each in own)
        assert (row.messages, row.bytes, row.maxBytes) == (len(own), sum(sizes), sizes[-1])
        assert sizes[(len(sizes) - 1) // 2] <= row.p50 <= sizes[len(sizes) // 2]
        counts = [sum(each.queueId == queue for each in own) for queue in {each.queueId for each in own}]
        assert (row.queues, row.skew) == (len(counts), pytest.approx(max(counts) / (len(own) / len(counts))))
    assert topics.keys() == {each.topic for each in rows}
    assert sum(row.messages for row in found.rates.collect()) == len(rows)
    tags = {(row.topic, row.tags): row.messages for row in found.tags.collect()}
    assert tags == {key: sum((each.topic, each.tags) == key for each in rows) for key in tags}
    assert {row.producer for row in found.producers.collect()} == {each.bornHost.rpartition(":")[0] for each in rows}
    done = CliRunner().invoke(stats_command.stats, ["--store", store, "--report", str(tmp_path), "--output", "json"])
    assert done.exit_code == 0, done.output
    assert {row["topic"] for row in json.loads(done.stdout)["topics"]} == topics.keys()
    assert (tmp_path / "report.html").read_text().count("<svg") == 4
