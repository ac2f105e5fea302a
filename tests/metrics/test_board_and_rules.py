"""The Grafana board and the Prometheus rules use metrics and labels that a broker exports."""

import asyncio
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from promql import used
from scraping import commit

from gantrymq.client import Client
from gantrymq.errors import BrokerRefused
from gantrymq.hooks import hookimpl
from gantrymq.model.hosts import parse_address
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "packaging/grafana/gantrymq.json"
PROMETHEUS = ROOT / "packaging/prometheus/prometheus.yml"
ALERTS = ROOT / "packaging/prometheus/gantrymq-alerts.yml"
PAGE = ROOT / "docs/operations/monitoring.md"
CASES = Path(__file__).with_name("alerts_test.yml")
GRPC = ROOT / "tests/grpc"  # its simulated broker

OF_PROMETHEUS = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate", "severity"}}
OF_TARGETS = {"job", "instance"}


def board():
    return json.loads(BOARD.read_text())


def rules():
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


def queries():
    """Expression and legend of each query of the board."""
    panels = [panel for panel in board()["panels"] if panel["type"] != "row"]
    return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]


def variable_queries():
    return [each["query"]["query"] for each in board()["templating"]["list"] if each["type"] == "query"]


async def happen(cluster):
    """Make something of every kind happen, except for a refusal of the store."""
    await cluster.create_topic("Orders", 1)
    await cluster.create_topic("Bills", 1)
    await cluster.send("Orders", b"x")
    await cluster.send("Orders", b"x", delay_level=18)
    await cluster.send("Orders", b"x", delay_ms=3_600_000)
    for topic in (RETRY_PREFIX + "readers", DLQ_PREFIX + "readers"):
        cluster.broker.topics.put(TopicConfig(topic, 1, 1))
        await cluster.put(topic, b"x")
    await copy(cluster)
    commit(cluster, "readers", Queue("Orders", 0), 0)
    commit(cluster, "readers", Queue(RETRY_PREFIX + "readers", 0), 0)
    cluster.broker.metrics.count_delivery("readers", "Orders", 1, 100)
    with suppress(BrokerRefused):
        await cluster.pull("Orders", "x", Broken.name)


async def serve_grpc(cluster):
    """Return a gRPC listener of the broker that has served and refused requests."""
    if str(GRPC) not in sys.path:
        sys.path.insert(0, str(GRPC))
    served = importlib.import_module("grpc_broker").GrpcBroker(cluster)
    await served.__aenter__()
    sdk = await served.sdk()
    await sdk.producer("Orders")
    await sdk.client.ended(sdk.open("QueryOffset"))
    await sdk.client.ended(sdk.open("SendMessage"))
    await sdk.call("Heartbeat")
    return served


async def copy(cluster):
    """Copy the broker as a slave with an empty log, which stays connected."""
    host, port = parse_address(cluster.broker.registration.ha_address)
    transport, _ = await cluster.world.network.connect(host, port, asyncio.Protocol)
    transport.write(bytes(8))
    while not any(each.name == "gantrymq_replication_slaves" and each.values[()] for each in plugin_metrics(cluster)):
        await cluster.world.clock.sleep(0.01)


def plugin_metrics(cluster):
    return cluster.broker.metrics.of_plugins()


def fail(parts, monkeypatch):
    """Let parts of a running broker fail."""
    parts.stats.dead_letters["Orders", "readers"] += 1
    parts.stats.plugin_failed("gate", "g")
    monkeypatch.setattr(type(parts.state), "failing", {"topics.json": "it cannot be written"})
    parts.dispatchers.parked["index"] = "ValueError"


class Broken:
    """A filter type that raises, so that it is suspended."""

    name = "BROKEN"
    accepts_all = needs_message = False

    @hookimpl
    def gantry_register_filters(self, registry):
        registry.add(self.name, lambda: self)

    def compile(self, subscription):
        return self

    def match_entry(self, tags_code, ext):
        raise ValueError("no")


def labels_of(*scrapes):
    """Name of each series and family to its labels."""
    found = {}
    for figures in scrapes:
        for family in figures.families.values():
            found.setdefault(family.name + "_total" * (family.type == "counter"), set())
        for sample in figures.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture
def names(beside, scrape, monkeypatch):
    """Name to labels of every metric of a broker where everything has happened."""
    pytest.importorskip("h2")
    for needed in (
        "allocate",
        "diagnosis",
        "grpc",
        "kit",
        "nameserver",
        "pop",
        "replication",
        "schedule",
        "transaction",
    ):
        pytest.importorskip(f"gantrymq_{needed}")

    async def run(cluster, service):
        await happen(cluster)
        served = await serve_grpc(cluster)
        async with (
            Client(cluster.namesrv, world=cluster.world, instance_name="one") as one,
            Client(cluster.namesrv, world=cluster.world, instance_name="two") as two,
            one.consumer("members", "Orders") as consumer,
            two.consumer("members", "Bills"),
            Client(cluster.namesrv, world=cluster.world, instance_name="three") as three,
            three.consumer("lost", {"Orders": "*", "Ordres": "*"}),
        ):
            await consumer.wait_assigned()
            await cluster.world.clock.sleep(1)
            fail(cluster.broker.metrics._parts, monkeypatch)
            running = await scrape(cluster, service)
        await served.__aexit__()
        await cluster.store.stop()
        return running, await scrape(cluster, service)

    elections = importlib.import_module("elected_brokers")  # of the replication plugin

    async def scrape_elected(cluster, service):
        while not elections.leads(cluster):
            await cluster.world.clock.sleep(0.1)
        return await scrape(cluster, service)

    scrapes = beside(run, plugins=[Broken()])
    elections.memory_etcd(monkeypatch)
    found = labels_of(*scrapes, beside(scrape_elected, settings={**elections.ELECTED, "store": "mmap"}))
    without = {name for name, labels in found.items() if not labels and f"{name}_count" not in found}
    assert without == set(), "not everything happened"
    return found | OF_PROMETHEUS


def wrong(expression, names, shown=()):
    """Sentences about names and labels of an expression that do not exist; *shown*: labels in a legend or a text."""
    found = used(expression)
    said = [f"no metric {name}" for name in found.metrics if name not in names]
    known = {name: names.get(name, set()) | OF_TARGETS for name in found.metrics}
    said += [
        f"{name} has no label {label}"
        for name, labels in found.metrics.items()
        for label in labels
        if label not in known[name]
    ]
    some = set().union(*known.values(), found.made)
    said += [f"nothing has the label {label}" for label in {*found.grouped, *shown} if label not in some]
    return [f"{sentence} in {expression}" for sentence in said]


def test_the_board_uses_what_a_broker_exports(names):
    said = [each for expr, legend in queries() for each in wrong(expr, names, re.findall(r"{{(\w+)}}", legend))]
    for query in variable_queries():
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        said += wrong(metric, names, [label])
    assert said == []
    assert len(queries()) > 40


def test_the_rules_use_what_a_broker_exports(names):
    said = []
    for rule in rules():
        texts = " ".join(rule["annotations"].values())
        said += wrong(rule["expr"], names, re.findall(r"\$labels\.(\w+)", texts))
    assert said == []


def test_names_and_labels_that_do_not_exist_are_found():
    names = {"gantrymq_x": {"cluster"}, **OF_PROMETHEUS}
    assert wrong('sum by (cluster) (rate(gantrymq_x{cluster=~"a|b (c)"}[5m])) > 2 * 1e6', names) == []
    assert wrong('count(ALERTS{alertname=~"G.*"}) or vector(0)', names) == []
    assert wrong('label_replace(gantrymq_x offset 5m, "made", "$1", "cluster", "(.*)")', names, ["made"]) == []
    for expression, sentence in (
        ("gantrymq_y", "no metric gantrymq_y"),
        ("rate(gantrymq_x[5m]) / on (cluster) gantrymq_y", "no metric gantrymq_y"),
        ('gantrymq_x{topic="T"}', "gantrymq_x has no label topic"),
        ("sum by (topic) (gantrymq_x)", "nothing has the label topic"),
    ):
        assert [each.partition(" in ")[0] for each in wrong(expression, names)][:1] == [sentence]


def test_every_rule_has_a_summary_advice_and_a_section_of_the_page():
    sections = re.findall(r"^### (GantryMQ\w+)$", PAGE.read_text(), re.MULTILINE)
    assert [rule["alert"] for rule in rules()] == sections
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        assert rule["annotations"]["description"].count(". ") >= 1, "a sentence, and what to do"
        assert rule["annotations"]["runbook"] == f"docs/operations/monitoring.md#{rule['alert'].lower()}"


def test_the_board_has_what_grafana_needs():
    variables = [each["name"] for each in board()["templating"]["list"]]
    assert variables == ["datasource", "cluster", "broker", "id", "group"]
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        if panel["type"] != "row":
            sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
            assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    cells = [
        (at["x"] + dx, at["y"] + dy)
        for at in (panel["gridPos"] for panel in panels)
        for dx in range(at["w"])
        for dy in range(at["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"


def members(document, path=""):
    """Yield the path of each member, with [] for numbers of lists."""
    pairs = document.items() if isinstance(document, dict) else []
    for name, each in pairs:
        yield f"{path}.{name}"
        yield from members(each, f"{path}.{name}")
    if isinstance(document, list):
        for each in document:
            yield from members(each, f"{path}[]")


def unknown_members(document):
    """Members that the schema of Grafana 10.1 does not have: they are lost when its library reads and writes them."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    written = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(document)))
    return Counter(members(document)) - Counter(members(written))


def test_grafana_s_schema_has_every_member_of_the_board():
    known = {".annotations.list[].builtIn", ".templating.list[].definition"}  # of the editor, not in the schema
    known |= {f".panels[].options.{name}" for name in ("wideLayout", "showPercentChange", "percentChangeColorMode")}
    assert set(unknown_members(board())) == known  # Grafana 10.1 ignores these options, later ones need them
    wrong = board()
    wrong["panels"][1]["options"]["colourMode"] = "value"
    assert set(unknown_members(wrong)) - known == {".panels[].options.colourMode"}


def test_the_sample_scrapes_the_job_of_the_rules_and_loads_them():
    sample = yaml.safe_load(PROMETHEUS.read_text())
    (job,) = sample["scrape_configs"]
    assert f'up{{job="{job["job_name"]}"}} == 0' in [rule["expr"] for rule in rules()]
    assert sample["rule_files"] == [ALERTS.name]


@pytest.fixture
def promtool():
    """``promtool(*arguments, folder)`` must succeed."""
    program = shutil.which("promtool") or pytest.skip("promtool is not here")

    def run(*arguments, folder):
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_promtool_accepts_sample_and_rules(promtool):
    promtool("check", "config", PROMETHEUS.name, folder=PROMETHEUS.parent)


def test_promtool_reads_the_queries_of_the_board(promtool, tmp_path):
    values = {"$__rate_interval": "1m", "$cluster": "C", "$broker": "b", "$id": "0", "$group": "g"}
    listed = []
    for number, (expr, _) in enumerate(queries()):
        for variable, text in values.items():
            expr = expr.replace(variable, text)
        assert "$" not in expr
        listed.append({"record": f"query_{number}", "expr": expr})
    (tmp_path / "board.yml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": listed}]}))
    promtool("check", "rules", "board.yml", folder=tmp_path)


def test_alerts_fire_when_they_should(promtool):
    promtool("test", "rules", CASES.name, folder=CASES.parent)
