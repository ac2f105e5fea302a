"""Connection options: declared once, accepted by `Client` only."""

import asyncio

import pytest

from gantrymq.client import (
    Client,
    Consumer,
    ConsumerSettings,
    LitePullConsumer,
    PopConsumer,
    Producer,
    Reader,
    TransactionProducer,
)
from gantrymq.client.calls.connection_config import CONNECT_OPTIONS, ConnectionConfig
from gantrymq.client.group.settings import ConsumerOptions, LitePullOptions, LitePullSettings
from gantrymq.client.pop.consumer import PopOptions, PopSettings
from gantrymq.client.producing.producer import ProducerOptions
from gantrymq.client.reading.reader import ReaderOptions, ReaderSettings
from gantrymq.client.sending.producer_settings import ProducerSettings
from gantrymq.errors import ClientError, InvalidParameter

MADE = {
    Client: lambda client, **options: Client(**options),
    Producer: lambda client, **options: client.producer("P", **options),
    TransactionProducer: lambda client, **options: client.transaction_producer("P", print, **options),
    Consumer: lambda client, **options: client.consumer("G", "T", **options),
    Reader: lambda client, **options: client.reader("T", **options),
    LitePullConsumer: lambda client, **options: client.lite_pull("G", **options),
    PopConsumer: lambda client, **options: client.pop_consumer("G", "T", **options),
}


def test_every_option_has_a_default():
    assert ("namesrv", *CONNECT_OPTIONS) == tuple(field.name for field in ConnectionConfig.__attrs_attrs__)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (ConsumerSettings, ConsumerOptions),
        (LitePullSettings, LitePullOptions),
        (ProducerSettings, ProducerOptions),
        (PopSettings, PopOptions),
        (ReaderSettings, ReaderOptions),
    ],
)
def test_settings_and_their_keywords_are_the_same(settings, options):
    fields = {field.name: field.type for field in settings.__attrs_attrs__}
    keywords = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert fields == {name: kind for name, kind in keywords.items() if name not in ("hooks", "trace")}


def test_the_client_takes_them(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world, instance_name="one", client_ip="10.0.0.9") as client,
        ):
            assert client._started().client_id == "10.0.0.9@one"

    simulate(work)


@pytest.mark.parametrize("kind", MADE)
def test_a_name_that_is_none_of_them_is_said(kind, simulate):
    async def work(world):
        async with Client("ns:1", world=world) as client:
            with pytest.raises(InvalidParameter, match=rf"a {kind.__name__} has no option time_out; it has .*, "):
                MADE[kind](client, time_out=1)

    simulate(work)


def test_the_sentence_names_what_the_class_has(simulate):
    async def work(world):
        async with Client("ns:1", world=world) as client:
            with pytest.raises(InvalidParameter, match=r"it has hooks, trace, default_timeout_s, retries, .*"):
                client.producer("P", retrys=1)
            with pytest.raises(InvalidParameter, match=r"it has .*expression, .*orderly, .*"):
                client.consumer("G", "T", ordered=True)
        with pytest.raises(InvalidParameter, match=r"it has hooks, trace, namespace, .*client_ip, tls"):
            Client(time_out=1)

    simulate(work)


def test_what_a_client_makes_connects_as_the_client(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world, instance_name="one") as client:
            producer = client.producer("P", retries=0)
            with pytest.raises(InvalidParameter, match=r"instance_name is an option of the Client"):
                client.producer("Q", instance_name="two")
            with pytest.raises(InvalidParameter, match=r"a Consumer has no option ordered"):
                client.consumer("G", "T", ordered=True)
            assert producer._started() is client._started()

    simulate(work)


def test_a_client_that_is_not_started_makes_nothing():
    async def work():
        with pytest.raises(ClientError, match="this Client is not started"):
            Client().producer("P")

    asyncio.run(work())


@pytest.mark.parametrize(
    "namesrv", ["kafka://a:9092", "amqp://u:p@h:5672/v", "a:9876;nats://b:4222", "https://a/rocketmq"]
)
def test_a_url_of_another_protocol_is_refused_when_the_client_is_made(namesrv):
    with pytest.raises(InvalidParameter, match=r"^namesrv is .*; expected host:port;host:port of name servers"):
        Client(namesrv)


@pytest.mark.parametrize("namesrv", ["a:9876", "http://a:9876", "http://a/rocketmq/nsaddr", "http://x/a:9876;b:9876"])
def test_addresses_as_in_java_are_taken(namesrv):
    Client(namesrv)
