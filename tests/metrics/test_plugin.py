"""Registrations of the distribution gantrymq-metrics, and when its port is opened."""

import logging
from types import SimpleNamespace

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq_metrics import plugin
from gantrymq_metrics.service import MetricsService
from gantrymq_metrics.settings import SCHEMA


class Registry(list):
    add = list.append


def test_registers_one_service_and_its_settings():
    services, settings = Registry(), Registry()
    plugin.gantry_register_services(services)
    plugin.gantry_register_config(settings)
    assert [each.name for each in services] == ["metrics"]
    assert {each.key: each.default for each in settings} == {
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "127.0.0.1",
        "metricsPromExporterPort": 5557,
        "metricsQueueLagLimit": 2000,
    }


@pytest.mark.parametrize("value", ["OTLP_GRPC", "LOG", "1", "3"])
def test_other_exporters_are_refused_with_a_sentence(value):
    with pytest.raises(ConfigError, match="not implemented in this version; PROM lets Prometheus fetch"):
        Settings(SCHEMA).set("metricsExporterType", value, "broker.conf line 1")


def test_an_unknown_exporter_is_refused():
    with pytest.raises(ConfigError, match="is not one of"):
        Settings(SCHEMA).set("metricsExporterType", "STATSD", "broker.conf line 1")


async def address_of(cluster, service):
    return service.address


def test_port_0_takes_a_free_one(beside):
    host, port = beside(address_of)
    assert host == "127.0.0.1" and port > 0


def test_a_port_that_was_set_is_the_one(beside):
    assert beside(address_of, settings={"metricsPromExporterPort": 7777}) == ("127.0.0.1", 7777)


def test_an_empty_host_means_the_advertised_address(beside):
    assert beside(address_of, settings={"metricsPromExporterHost": ""})[0] == "127.0.0.1"


@pytest.mark.parametrize("value", ["DISABLE", "0"])
def test_disabled_it_opens_no_port(beside, value):
    assert beside(address_of, settings={"metricsExporterType": value}) is None


def test_a_port_that_was_set_and_is_taken_stops_the_start(beside):
    async def start_again(cluster, service):
        again = MetricsService()
        cluster.settings.set("metricsPromExporterPort", service.address[1], "broker.conf line 2")
        with pytest.raises(ConfigError, match=r"port \d+ on 127.0.0.1 is taken .* choose another with --set"):
            await again.start(cluster.broker)
        await again.stop()

    beside(start_again)


def test_the_default_port_is_given_up_with_a_warning_where_it_is_taken(beside, caplog):
    async def start_again(cluster, service):
        listener = await cluster.world.network.listen("127.0.0.1", 5557, lambda: None)
        again = MetricsService()
        await again.start(SimpleNamespace(world=cluster.world, settings=Settings(SCHEMA)))
        await again.stop()
        await listener.close()
        return again.address

    with caplog.at_level(logging.WARNING):
        assert beside(start_again) is None
    assert "port 5557 on 127.0.0.1 is taken" in caplog.text
    assert "this broker shows no metrics" in caplog.text


def test_it_starts_again_after_a_stop(beside):
    async def restart(cluster, service):
        await cluster.restart()
        return service.address

    assert beside(restart) is not None
