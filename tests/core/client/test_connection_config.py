"""Connection options: declared once, accepted by every kind of client."""

import asyncio

import pytest

from gantrymq.client import (
    Admin,
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
from gantrymq.client.group.settings import SettingOptions
from gantrymq.client.sending.producer_settings import ProducerOptions, ProducerSettings
from gantrymq.errors import ClientError, InvalidParameter

pytestmark = pytest.mark.usefixtures("strategy")

MADE = {
    Client: (),
    Producer: ("P",),
    TransactionProducer: ("P", print),
    Consumer: ("G", "T"),
    Reader: ("T",),
    LitePullConsumer: ("G",),
    PopConsumer: ("G", "T"),
    Admin: (),
}


def test_every_option_has_a_default():
    assert ("namesrv", *CONNECT_OPTIONS) == tuple(field.name for field in ConnectionConfig.__attrs_attrs__)


@pytest.mark.parametrize(
    ("settings", "options"), [(ConsumerSettings, SettingOptions), (ProducerSettings, ProducerOptions)]
)
def test_settings_and_their_keywords_are_the_same(settings, options):
    fields = {field.name: field.type for field in settings.__attrs_attrs__}
    assert fields == {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}


@pytest.mark.parametrize("kind", MADE)
def test_every_client_takes_them(kind, simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            client = kind(*MADE[kind], namesrv=c.namesrv, world=world, instance_name="one", client_ip="10.0.0.9")
            async with client:
                assert client._started().client_id == "10.0.0.9@one"

    simulate(work)


@pytest.mark.parametrize("kind", MADE)
def test_a_name_that_is_none_of_them_is_said(kind):
    with pytest.raises(InvalidParameter, match=rf"a {kind.__name__} has no option time_out; it has .*client_ip, tls"):
        kind(*MADE[kind], time_out=1)


def test_the_sentence_names_what_the_class_has():
    with pytest.raises(InvalidParameter, match=r"it has default_timeout_s, retries, .*world"):
        Producer("P", retrys=1)
    with pytest.raises(InvalidParameter, match=r"it has expression, .*orderly, .*world"):
        Consumer("G", "T", ordered=True)


def test_what_a_client_makes_connects_as_the_client(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world, instance_name="one") as client:
            producer = client.producer("P", retries=0)
            with pytest.raises(InvalidParameter, match=r"instance_name is an option of the Client"):
                client.producer("Q", instance_name="two")
            with pytest.raises(InvalidParameter, match=r"a Consumer has no option ordered"):
                client.consumer("G", "T", ordered=True)
            await producer.close()
            async with producer:  # restarted without the Client, with the same configuration
                assert producer._started() is client._started()

    simulate(work)


def test_a_client_that_is_not_started_makes_nothing():
    async def work():
        with pytest.raises(ClientError, match="this Client is not started"):
            Client().producer("P")

    asyncio.run(work())
