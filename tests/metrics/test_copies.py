"""A master and two slaves export the same names, told apart by ``broker_id``; the board counts each message once."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from scraping import Figures, commit

from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_metrics.service import MetricsService

pytest.importorskip("gantrymq_replication")

from ha_pairs import put, service, simulate_pair

BOARD = Path(__file__).resolve().parents[2] / "packaging/grafana/gantrymq.json"
METRICS = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}
VALUES = {"$cluster": ".*", "$broker": ".*", "$id": "0", "$group": ".*", "$__rate_interval": "1m"}
ONCE = {  # title of a panel to its one value
    "Lag in messages": 9,
    "Messages that wait for a retry": 1,
    "Dead letters kept": 2,
    "In flight": 0,
    "Registered": 1,
}


@pytest.fixture
def scrapes(http):
    """The figures of a master and two slaves that have copied its tables, in the order of their ids."""
    for needed in ("gantrymq_replication", "gantrymq_filter_tag"):
        pytest.importorskip(needed)

    async def main(pair):
        master = await pair.master(**METRICS)
        retry, dead = RETRY_PREFIX + "readers", DLQ_PREFIX + "readers"
        for topic in ("Orders", retry, dead):
            master.broker.topics.put(TopicConfig(topic, 4, 4))
        await put(master, 10)
        await put(master, 2, topic=dead)
        await put(master, 1, topic=retry)
        commit(master, "readers", Queue("Orders", 0), 1)
        commit(master, "readers", Queue(retry, 0), 0)
        copy = {"namesrv": master.namesrv, "brokerRole": "SLAVE", **METRICS}
        slaves = [await pair.start(f"slave{number}", brokerId=number, **copy) for number in (1, 2)]
        for slave in slaves:
            await pair.equal(master, slave)
            await pair.until(lambda slave=slave: dict(slave.broker.metrics.committed()), "offsets of the master")
        brokers = [(each, service(each, MetricsService)) for each in (master, *slaves)]
        return [Figures((await http.get(each.world, made.address, "/metrics")).body) for each, made in brokers]

    return simulate_pair(main)


def test_a_slave_counts_copied_messages_in_its_total_only(scrapes):
    stored = [figures("rocketmq_messages_in_total", topic="Orders", node_id="broker-a") for figures in scrapes]
    assert stored == [10, None, None]
    assert [figures("rocketmq_brokeruntime_putmessage_times_total") for figures in scrapes] == [13, 13, 13]
    assert [figures("rocketmq_brokeruntime_msg_put_total_today_now") for figures in scrapes] == [13, 0, 0]


def test_all_series_of_a_broker_have_its_id(scrapes):
    for number, figures in enumerate(scrapes):
        assert {sample.labels["broker_id"] for sample in figures.samples} == {str(number)}
        assert figures("rocketmq_group_diff", group="readers", topic="Orders", broker="broker-a") == 9


def test_the_board_counts_each_message_once(scrapes, tmp_path):
    promtool = shutil.which("promtool") or pytest.skip("promtool is not here")
    series = [
        {
            "series": f"{sample.name}{{{labels(**sample.labels, instance=f'm{number}')}}}",
            "values": f"{sample.value:g}x9",
        }
        for number, figures in enumerate(scrapes)
        for sample in figures.samples
    ]
    panels = {panel["title"]: panel for panel in json.loads(BOARD.read_text())["panels"]}
    asked = []
    for title, value in ONCE.items():
        (target,) = panels[title]["targets"]
        expr = f"sum({target['expr']})"
        for variable, text in VALUES.items():
            expr = expr.replace(variable, text)
        asked.append({"expr": expr, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": value}]})
    tests = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}
    (tmp_path / "once.yml").write_text(yaml.safe_dump(tests))
    done = subprocess.run([promtool, "test", "rules", "once.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def labels(**pairs):
    return ",".join(f"{name}={json.dumps(text)}" for name, text in pairs.items())
