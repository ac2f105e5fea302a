"""The job audit in Spark: exactly the ten planted faults of one store; Java's stores; other inputs."""

import json
import sys
from pathlib import Path

import pytest
from golden_stores import SCENARIOS

sys.path.append(str(Path(__file__).parents[1] / "store_tools"))

from planted_store import Planted
from spark_columns import golden_names

from gantrymq_spark.jobs.audit import Limits, audit
from gantrymq_spark.jobs.audit_summary import summary_of, write_findings
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.report.page import write_page
from gantrymq_spark.report.pages import audit_page
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


def looked_at(session, given, limits):
    audited = audit(session, given, limits)
    try:
        return audited.findings.toArrow().to_pylist()
    finally:
        audited.close()


def with_ten_faults(root):
    """The store, the limits, and what is to be found: check, topic, queue offset, count."""
    planted = Planted(root)
    planted.sound()
    store, expected = planted.store, []

    offset = store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=offset + 3)
    expected.append(("queue.gap", "Bills", offset, 3))

    store.next["Bills", 1] = offset + 3
    planted.add("Bills", 1)
    planted.orders()
    expected.append(("queue.duplicate", "Bills", offset + 3, 1))

    expected.append(("key.duplicate", "Orders", store.next["Orders", 0], 1))
    planted.add(key="U0003")

    expected.append(("body.crc", "Orders", store.next["Orders", 0], 1))
    wrong_body = planted.add(body=b"as it was sent")

    offset = store.next["Orders", 0]
    for place in (offset + 1, offset):
        planted.add(queue_offset=place)
    store.next["Orders", 0] = offset + 2
    expected.append(("queue.order", "Orders", offset, 1))
    planted.orders()

    expected.append(("log.damaged", "", -1, 1))
    damaged = planted.add("Bills", 1)
    planted.orders()

    _, offset = planted.half("T9")
    expected.append(("transaction.open", "RMQ_SYS_TRANS_HALF_TOPIC", offset, 1))

    due_ms = planted.delayed("D9") + 1000
    planted.orders(10)
    expected.append(("delay.late", "Orders", store.next["Orders", 0], 1))
    planted.delivered("D9", due_ms, late_ms=HOUR_MS)

    for key in ("U0001", "U0005"):
        planted.add("%DLQ%group", key=key)
    expected.append(("dead_letter", "%DLQ%group", 0, 2))

    end = store.next["Orders", 0]
    expected.append(("lag", "Orders", 3, end - 3))
    store.write()
    table = {"Orders@slow": {"0": 3}, "Orders@quick": {"0": end}, "Bills@slow": {"1": store.next["Bills", 1] - 1}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    (root / DELAY_LEVELS).write_bytes(DelayLevels.of().pack())
    store.spoil_log(wrong_body + 90, b"?")
    store.spoil_log(damaged + 4, b"\0\0\0\0")
    return planted, Limits(store.last_ms + HOUR_MS, lag=20), sorted(expected)


def places(found):
    return sorted((row["check"], row["topic"], row["queueOffset"], row["count"]) for row in found if row["fault"])


def test_each_of_ten_planted_faults_is_found_and_nothing_else(session, tmp_path):
    planted, limits, expected = with_ten_faults(tmp_path / "store")
    given = Input(store=str(planted.store.root), options={"maxBytesPerPartition": "3000"})
    audited = audit(session, given, limits)
    found, summary = audited.findings.toArrow().to_pylist(), summary_of(audited)
    audited.close()
    assert len({check for check, *_ in expected}) == 10
    assert places(found) == expected
    assert [row for row in found if not row["fault"]] == []
    assert "it cost queue offset" in next(row["text"] for row in found if row["check"] == "log.damaged")
    assert (summary.faults, summary.unknown) == (10, ())
    assert summary.messages == len(planted.store.records) - 1
    assert [(lag.group, lag.topic, lag.behind) for lag in summary.lags][1:] == [
        *(("slow", "Bills", 1), ("quick", "Orders", 0)),
    ]
    page = tmp_path / "report.html"
    write_page(page, audit_page(given, limits, summary))
    text = page.read_text()
    assert text.count("<svg") == 4
    assert all(row["check"] in text for row in found)
    assert "src=" not in text and 'href="http' not in text


def test_topics_and_times_narrow_it(session, tmp_path):
    planted, limits, expected = with_ten_faults(tmp_path / "store")
    folder = str(planted.store.root)
    damage = ("log.damaged", "", -1, 0)  # whatever is looked at; it cost nothing of that
    found = looked_at(session, Input(store=folder, pattern="%DLQ%.*"), limits)
    assert places(found) == [each for each in expected if each[1] == "%DLQ%group"] + [damage]
    before = Input(store=folder, topics=("Orders",), until_ms=planted.store.last_ms - HOUR_MS)
    assert places(looked_at(session, before, limits)) == [damage]


# What an audit says of Java's stores is what happened there.
TOLD = {
    "crash/recovered": {"delay.late"},  # messages were due while the broker was down
    "crash/torn-recovered": {"delay.late"},
    "mqadmin": {"key.duplicate"},  # checkMsgSendRT sends one message to several queues
    "retry": {"dead_letter"},
}


@pytest.mark.parametrize("name", golden_names(SCENARIOS, ("crash/torn-recovered", "mqadmin", "retry", "transaction")))
def test_java_s_stores(session, golden, name):
    scenario = golden(name)
    newest_ms = max(record.get("storeTimestamp") or 0 for record in scenario.records)
    found = looked_at(session, Input(store=str(scenario.store)), Limits(newest_ms))
    assert {row["check"] for row in found if row["fault"]} == TOLD.get(name, set())


def test_findings_are_written_whole_and_shown_in_part(session, tmp_path):
    planted = Planted(tmp_path / "store")
    for _ in range(150):
        planted.add(key="again")
        planted.add("Bills", 1)
    planted.store.write()
    audited = audit(session, Input(store=str(planted.store.root)), Limits(planted.store.last_ms))
    summary = summary_of(audited)
    path = tmp_path / "findings.parquet"
    assert write_findings(audited.findings, path) == summary.findings == 149
    assert len(summary.shown) == 100
    assert session.read.parquet(str(path)).count() == 149
    audited.close()
    page = tmp_path / "report.html"
    write_page(page, audit_page(Input(store="<b>"), Limits(0), summary))
    assert "These are 100 of 149" in page.read_text()
    assert "<b>" not in page.read_text()
