"""``gantrymq pipeline replay``, from topics and from a store, with a broker."""

import json
import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")

from click.testing import CliRunner

from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.replay import plan_replay, replay, rows_to_replay
from gantrymq_spark.jobs.replay_send import Sent
from gantrymq_spark.sink.dedup import SINK_ID
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
SETTINGS = {
    "plugins": "storage_mmap,filter_tag,filter_sql92,admin",
    "store": "mmap",
    "enablePropertyFilter": True,
    "autoCreateTopicEnable": False,
}
COUNT = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        running.create_topic("Source", 4)
        for number in range(COUNT):
            running.send("Source", b"%d" % number, tags=f"t{number % 2}", keys="k", properties={"a": str(number)})
            if number % 10 == 9:
                time.sleep(0.25)  # real time: store times that a replay has to keep
        yield running


def told(message):
    return message.queue_id, message.body, message.tags, message.keys, message.properties["a"]


def test_a_topic_as_fast_as_it_goes(session, broker):
    broker.create_topic("Fast", 4)
    rows = rows_to_replay(session, Input(topics=("Source",), namesrv=broker.namesrv))
    plan = plan_replay(rows, "Fast", broker.namesrv, None)
    assert broker.pull("Fast") == []
    before = broker.pull("Source")
    times = [message.store_timestamp for message in before]
    assert (plan.messages, plan.first_ms, plan.last_ms) == (COUNT, min(times), max(times))
    assert plan.body_bytes == sum(len(message.body) for message in before)
    sent = replay(rows, "Fast", broker.namesrv, None)
    after = broker.pull("Fast")
    assert [told(message) for message in after] == [told(message) for message in before]
    assert {q.queue_id: n for q, n in plan.queues} == {q: sum(m.queue_id == q for m in after) for q in range(4)}
    assert (sent.messages, sent.body_bytes, sent.first_ms) == (COUNT, plan.body_bytes, plan.first_ms)
    ids = [f"Source/{m.broker_name}/{m.queue_id}/{m.queue_offset}" for m in before]
    assert [message.properties[SINK_ID] for message in after] == ids


def test_a_part_of_a_store_at_half_its_speed(session, broker):
    broker.create_topic("Slow", 2)
    rows = rows_to_replay(
        session, Input(topics=("Source",), store=broker.settings.text("storePathRootDir"), sql92="a >= 10")
    )
    before = [message for message in broker.pull("Source") if int(message.properties["a"]) >= 10]
    begun, sent = time.monotonic(), Sent()
    replay(rows, "Slow", broker.namesrv, 0.5, sent)
    took_s = time.monotonic() - begun
    after = {message.body: message for message in broker.pull("Slow")}
    assert after.keys() == {message.body for message in before}
    assert sent.messages == len(before) == COUNT - 10
    first, last = (edge(before, key=lambda message: message.store_timestamp) for edge in (min, max))
    assert took_s >= 2 * (last.store_timestamp - first.store_timestamp) / 1000
    places: dict = {}
    for then in before:  # queue by queue
        now = after[then.body]
        distance_ms = then.store_timestamp - first.store_timestamp
        assert now.store_timestamp - after[first.body].store_timestamp >= 2 * distance_ms - 20
        assert now.queue_offset > places.get(then.queue_id, -1)
        places[then.queue_id] = now.queue_offset


def test_an_archive(session, broker, tmp_path):
    folder = str(tmp_path / "archive")
    archive(session, Input(topics=("Source",), namesrv=broker.namesrv), folder)
    broker.create_topic("Again", 4)
    replay(rows_to_replay(session, Input(archive=folder, topics=("Source",))), "Again", broker.namesrv, None)
    assert [told(message) for message in broker.pull("Again")] == [told(message) for message in broker.pull("Source")]


def test_the_command(session, broker, monkeypatch):
    from gantrymq_spark.commands.replay import replay as command

    broker.create_topic("Commanded", 4)
    monkeypatch.setattr("gantrymq_spark.session.open_session", lambda *_, **__: session)
    monkeypatch.setattr(session, "stop", lambda: None)

    def run(*words):
        return CliRunner().invoke(command, ["-n", broker.namesrv, "--output", "json", *words])

    tags = ("--topic", "Source", "--tags", "t1", "--speed", "100x")
    dry = json.loads(run(*tags, "--to-topic", "Commanded", "--dry-run").stdout)
    assert (dry["messages"], dry["dryRun"]) == (COUNT // 2, True)
    assert dry["lastsS"] == pytest.approx((dry["lastMs"] - dry["firstMs"]) / 100_000)
    assert broker.pull("Commanded") == []
    done = json.loads(run(*tags, "--to-topic", "Commanded").stdout)
    assert (done["messages"], done["complete"]) == (COUNT // 2, True)
    assert len(broker.pull("Commanded")) == COUNT // 2

    missing = run(*tags, "--to-topic", "Nothing", "--dry-run")
    assert "Nothing" in str(missing.exception)
    assert missing.exit_code == 1
    away = run("--topic", "Source", "--to-topic", "T", "--to-namesrv", "127.0.0.1:1", "--dry-run")
    assert "127.0.0.1:1" in str(away.exception)
    assert "write 1x, 10x" in run("--topic", "Source", "--to-topic", "T", "--speed", "fast").stderr
    assert "Missing option '--to-topic'" in run("--topic", "Source").stderr
    assert "give --topic" in run("--to-topic", "T").stderr
