"""What operators see of gRPC clients: `gantrymq group clients`, the console, `gantrymq status` and ``/healthz``."""

import json
import threading

import pytest

pytest.importorskip("grpc.aio", reason="grpcio is not installed")
pytest.importorskip("gantrymq_grpc")
pytest.importorskip("gantrymq_admin")
pytest.importorskip("gantrymq_diagnosis")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_pop")
pytest.importorskip("gantrymq_storage_memory")

import grpc
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq_grpc.definitions import (
    SERVICE,
    ClientType,
    Publishing,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    TelemetryCommand,
)

GRPC = {"listeners": "sdk=grpc://127.0.0.1:0"}
CONSUMER = Settings(
    client_type=ClientType.SIMPLE_CONSUMER,
    subscription=Subscription(
        group=Resource(name="Readers"), subscriptions=[SubscriptionEntry(topic=Resource(name="Orders"))]
    ),
)
PRODUCER = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name="Orders")]))


@pytest.fixture
def connected(gantrymq_broker):
    """A broker with a consumer and a producer of the gRPC protocol."""
    gantrymq_broker.create_topic("Orders", 1)
    with grpc.insecure_channel(gantrymq_broker.cluster.server.identity.listeners["sdk"]) as channel:
        method = channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=TelemetryCommand.FromString,
        )
        streams = []
        for client_id, language, settings in (("simple@1", "PYTHON", CONSUMER), ("sender@2", "HTTP", PRODUCER)):
            more = [("x-mq-client-id", client_id), ("x-mq-language", language), ("x-mq-client-version", "5.1.2")]
            streams.append(Stream(method, TelemetryCommand(settings=settings), more))
        yield gantrymq_broker
        for each in streams:
            each.call.cancel()


class Stream:
    """An open telemetry stream, whose settings were answered."""

    def __init__(self, method, command, metadata):
        self.ended = threading.Event()
        self.call = method(self.requests(command), metadata=metadata, timeout=60)
        assert next(self.call).settings.metric.on is False

    def requests(self, command):
        yield command
        self.ended.wait(60)


def command(broker, *words):
    done = CliRunner().invoke(main, [*words, "-n", broker.namesrv])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.gantrymq(settings=GRPC)
def test_commands_show_language_and_version_of_grpc_clients(connected):
    text = command(connected, "group", "clients", "-g", "Readers")
    (line,) = [each for each in text.splitlines() if "simple@1" in each]
    assert "grpc" in line and "PYTHON" in line and "5.1.2" in line
    (found,) = json.loads(command(connected, "group", "clients", "-g", "Readers", "--output", "json"))["clients"]
    assert (found["language"], found["version"]) == ("PYTHON", 437)
    assert "CONSUME_POP" in text and "CONSUME_ACTIVELY" not in text


@pytest.mark.gantrymq(settings=GRPC)
def test_status_and_the_health_check_count_them(connected):
    shown = command(connected, "status")
    (line,) = [each for each in shown.splitlines() if "gantrymq_grpc_clients" in each]
    assert line.split()[1:3] == ["broker-a", "2"]
    service = pytest.importorskip("gantrymq_metrics.service")
    found = connected.call(service.health, connected.broker)["grpc"]
    assert (found["connections"], found["clients"]) == (1, {"HTTP": 1, "PYTHON": 1})
    assert list(found["listeners"]) == ["sdk"]


@pytest.mark.gantrymq(settings=GRPC)
def test_pages_of_the_console_show_them(connected):
    pytest.importorskip("gantrymq_console")
    from console_visitor import Visitor

    with Visitor(connected) as visitor:
        rows = {each["client_id"]: each for each in visitor.api("/clients")["data"]["clients"]}
        assert (rows["simple@1"]["roles"], rows["simple@1"]["groups"]) == (["consumer"], ["Readers"])
        assert (rows["simple@1"]["language"], rows["simple@1"]["version"]) == ("PYTHON", "5.1.2")
        assert (rows["sender@2"]["roles"], rows["sender@2"]["groups"]) == (["producer"], ["Orders"])
        assert rows["sender@2"]["language"] == "HTTP"
        page = visitor.get("/clients/show?id=simple%401")
        assert "PYTHON" in page.text and "5.1.2" in page.text and "sdk" in page.text


@pytest.mark.gantrymq(settings=GRPC)
def test_figures_and_settings_of_the_protocol_have_a_meaning_in_chinese(connected):
    pytest.importorskip("gantrymq_console")
    from gantrymq_console.web.texts import texts_of
    from gantrymq_grpc.settings import SCHEMA

    table = texts_of("zh").table
    names = {each.name for each in connected.call(lambda: list(connected.broker.metrics.of_plugins()))}
    figures = {each for each in names if each.startswith("gantrymq_grpc_")}
    assert len(figures) == 8
    assert not {each for each in figures if f"meanings.figure.{each}" not in table}
    assert not {each.key for each in SCHEMA if f"meanings.setting.{each.key}" not in table}
