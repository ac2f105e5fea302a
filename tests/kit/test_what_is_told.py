"""Reports about custom filters for operators: the metrics page, ``gantrymq status`` and ``gantrymq group explain``."""

import json
import urllib.request

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.errors import BrokerRefused
from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request

MetricsService = pytest.importorskip("gantrymq_metrics.service").MetricsService
pytest.importorskip("gantrymq_storage_memory")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_diagnosis")
pytest.importorskip("gantrymq_admin")

GROUP = "testing_reader"


def fail(record):
    raise KeyError("colour")


def command(served, *words):
    """Output of a command on both streams."""
    done = CliRunner().invoke(main, [*words, "-n", served.running.namesrv])
    assert done.exit_code == 0, done.output
    return done


def put_group(served, name, **attributes):
    async def ask():
        connection = await RemotingClient(served.running.broker.world).connect(served.running.broker_address)
        body = dumps(GroupConfig(name, attributes=attributes).to_json())
        answer = await connection.call(request(200, None, body), 30.0)
        connection.close()
        return answer

    assert served.running.run(ask()).code == 0


def suspended(served):
    served.send("abc", "bcd")
    assert served.pull("CONTAINS:: b", "SQL92") == ["abc", "bcd"]
    served.kind.before = fail
    with pytest.raises(BrokerRefused, match="is suspended"):
        served.pull("CONTAINS:: c", "SQL92")


def test_the_metrics_page_has_calls_seconds_and_what_is_suspended(serve):
    served = serve(metricsExporterType="PROM", metricsPromExporterPort=0, metricsPromExporterHost="127.0.0.1")
    suspended(served)
    service = next(each for each in served.running.cluster.plugins.services if isinstance(each, MetricsService))
    host, port = service.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    found = {
        line.split("{")[0].removeprefix("gantrymq_custom_filter"): float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith("gantrymq_custom_filter")
        and all(part in line for part in ('type="CONTAINS"', f'group="{GROUP}"', 'topic="T"'))
    }
    assert found.pop("_calls_total") >= 6  # two messages, two stages each; two stages of one
    assert found.pop("_seconds_total") > 0
    assert found == {
        "s_suspended": 1,
        "_suspensions_total": 1,
        "_failures_total": 1,
        "_slow_total": 0,
        "_stuck_total": 0,
        "_turns_over_total": 0,
    }


def test_group_explain_and_status_name_a_suspended_filter_with_the_reason(served):
    suspended(served)
    sentence = f"filter CONTAINS of group {GROUP} on topic T is suspended: it raised KeyError: 'colour' at T/"
    put_group(served, GROUP)
    shown = command(served, "group", "explain", GROUP)
    assert sentence in shown.output
    (broker,) = json.loads(command(served, "group", "explain", GROUP, "--output", "json").stdout)["brokers"]
    assert sentence in {each["reason"]: each["sentence"] for each in broker["diagnosis"]}["custom-filters-suspended"]
    shown = command(served, "status")
    assert "gantrymq_custom_filters_suspended" in shown.stdout
    assert sentence in shown.output


def test_other_groups_are_told_nothing_of_it(served):
    suspended(served)
    put_group(served, "other")
    assert "suspended" not in command(served, "group", "explain", "other").output


def test_a_filter_of_the_groups_attribute_is_named_as_well(served):
    served.send("abc")
    put_group(served, GROUP, filter="CONTAINS:: b")
    served.kind.before = fail
    with pytest.raises(BrokerRefused, match="is suspended"):
        served.pull()
    assert (
        f"filter CONTAINS of group {GROUP} on topic T is suspended" in command(served, "group", "explain", GROUP).output
    )
