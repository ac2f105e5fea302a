"""Arguments of a wrong type raise a `ClientError` when a client is made, and no bare TypeError or AttributeError."""

import inspect
from decimal import Decimal

import pytest

import gantrymq.client
from gantrymq.client import ClientError, Message, MessageIllegal, TransactionState
from gantrymq.client.calls.connection_config import CONNECT_OPTIONS, ConnectOptions
from gantrymq.client.connection.base import BaseClient
from gantrymq.client.group.settings import ConsumerOptions, LitePullOptions
from gantrymq.client.pop.consumer import PopOptions
from gantrymq.client.producing.producer import ProducerOptions
from gantrymq.client.reading.reader import ReaderOptions
from gantrymq.client.sending.producer_settings import Batching
from gantrymq.client.sending.validation import check_message
from gantrymq.client.sync import Client as SyncClient

WRONG = [5, -1, 2.5, Decimal(5), None, "a", "", b"x", ["a"], ["a", "b"], {"a": 1}, object(), True, float("nan")]
CLIENTS = [
    kind
    for name in gantrymq.client.__all__
    if isinstance(kind := getattr(gantrymq.client, name), type) and issubclass(kind, BaseClient) and name != "Admin"
]
NEEDED = {"group": "g", "topics": "T", "topic": "T", "check": lambda message: TransactionState.UNKNOWN}
SETTINGS = {
    "Producer": ProducerOptions,
    "TransactionProducer": ProducerOptions,
    "Consumer": ConsumerOptions,
    "LitePullConsumer": LitePullOptions,
    "PopConsumer": PopOptions,
    "Reader": ReaderOptions,
    "Client": ConnectOptions,
}


def parameters(kind):
    """Return the parameter names of the class, including its settings."""
    own = inspect.signature(kind.__init__).parameters.values()
    named = [each.name for each in own if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    settings = SETTINGS.get(kind.__name__)
    return [*named, *(settings.__annotations__ if settings else ())]


def needed(kind):
    return {
        each.name: NEEDED[each.name]
        for each in inspect.signature(kind.__init__).parameters.values()
        if each.default is each.empty and each.name in NEEDED
    }


def outcome(make, **given):
    """Return an error description, or None if the call returns or raises a ClientError."""
    try:
        make(**given)
    except ClientError as error:
        return None if str(error) else f"{given}: {type(error).__name__} without a text"
    except Exception as error:
        return f"{given}: {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_made_with_a_wrong_type(kind):
    found = [
        outcome(kind, **{**needed(kind), name: value}) for name in dict.fromkeys(parameters(kind)) for value in WRONG
    ]
    assert [each for each in found if each] == []
    assert len(found) > 90


def test_the_limits_of_batching_too():
    found = [outcome(Batching, **{name: value}) for name in Batching.__annotations__ for value in WRONG]
    assert [each for each in found if each] == []


def test_a_client_for_threads_refuses_them_as_well():
    found = [outcome(SyncClient, **{name: value}) for name in ("namesrv", *CONNECT_OPTIONS) for value in WRONG]
    assert [each for each in found if each] == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: gantrymq.client.Producer(None), "the group name is None; expected a text"),
        (lambda: gantrymq.client.Reader(5), "the topic name is 5; expected a text"),
        (lambda: gantrymq.client.Client(5), "namesrv is 5; expected a text"),
        (
            lambda: gantrymq.client.Consumer("g", ["a", "b"]),
            r"topics is \['a', 'b'\]; expected a topic, or a dict of topics with their expressions",
        ),
        (lambda: gantrymq.client.Producer("g", retries="a"), "retries is 'a'; expected a whole number, 0 or more"),
        (lambda: gantrymq.client.Producer("g", retries=2.5), "retries is 2.5; expected a whole number, 0 or more"),
        (
            lambda: gantrymq.client.Consumer("g", "T", pull_batch=True),
            "pull_batch is True; expected a whole number, 1 to 1024",
        ),
        (lambda: gantrymq.client.Client(client_ip="here"), "client_ip is 'here'; expected an IP address"),
        (lambda: gantrymq.client.Client(credentials=("me", "secret")), "credentials is a tuple; expected Credentials"),
    ],
)
def test_the_sentence_names_the_argument_and_its_value(made, said):
    with pytest.raises(ClientError, match=f"^{said}"):
        made()


@pytest.mark.parametrize("value", ["a", None, 0, 2.5, [1]])
def test_a_wrong_number_of_handlers(value, simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            gantrymq.client.Client(c.namesrv, world=world) as client,
            client.consumer("g", "T") as consumer,
        ):
            with pytest.raises(ClientError, match="^concurrency is .*; expected "):
                await consumer.run(print, concurrency=value)

    simulate(work)


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b"), {"a", "b"}])
def test_keys_are_what_the_error_says(keys):
    check_message(Message("T", b"x", keys=keys))
    with pytest.raises(MessageIllegal, match="expected a text, or a tuple, list or set of texts"):
        check_message(Message("T", b"x", keys=5))
