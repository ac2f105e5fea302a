"""Every public method of every client in failing environments: it raises a `ClientError` with a message.

Methods are found by introspection; their arguments are built from the names of their parameters.
"""

import asyncio
import inspect
import re
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal

import pytest

import gantrymq.client
from gantrymq.client import (
    Client,
    ClientError,
    Consumer,
    Credentials,
    GroupConfig,
    InvalidParameter,
    Message,
    OffsetTarget,
    Producer,
    Reader,
    SendFailed,
    TopicConfig,
    TransactionState,
)
from gantrymq.client.connection.base import BaseClient
from gantrymq.client.message import ReceivedMessage
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

QUEUE = MessageQueue("T", "a", 0)
LIMIT_S = 120.0
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
WAY = re.compile("before the answer|no answer|nobody listens|no connection")  # words of the way to a server
OWN = {"start", "join", "close", "closed_by"}  # tested where they are used, or not for applications
CLIENTS = [
    kind
    for name in gantrymq.client.__all__
    if isinstance(kind := getattr(gantrymq.client, name), type) and issubclass(kind, BaseClient)
]


def received():
    fields = dict.fromkeys(ReceivedMessage.__match_args__, "")
    numbers = {name: 0 for name, kind in ReceivedMessage.__annotations__.items() if kind == "int"}
    return ReceivedMessage(**{**fields, **numbers, "topic": "T", "body": b"x", "properties": {}, "broker_name": "a"})


def methods(kind):
    return [name for name in dir(kind) if not name.startswith("_") and name not in OWN]


BY_NAME = {
    "message": lambda: Message("T", b"x"),
    "messages": lambda: [Message("T", b"x")],
    "queue": lambda: QUEUE,
    "queues": lambda: [QUEUE],
    "topic": lambda: "T",
    "topics": lambda: "T",
    "target": lambda: OffsetTarget(edge="EARLIEST"),
    "listener": lambda: print,
    "group": lambda: "G",
    "check": lambda: lambda message: TransactionState.UNKNOWN,
    "handler": lambda: print,
    "address": lambda: "a:10911",
    "namesrv": lambda: "other:9876",
    "broker_name": lambda: "a",
    "code": lambda: RequestCode.GET_BROKER_CONFIG,
    "offset": lambda: 0,
    "timeout_s": lambda: 3.0,
    "offset_id": lambda: "7F00000100002A9F0000000000000000",
}
BY_KIND = {"str": "x", "int": 1, "float": 1.0, "bool": True, "bytes": b"x"}
BY_CLASS = {
    "ReceivedMessage": received,
    "TopicConfig": lambda: TopicConfig("T"),
    "GroupConfig": lambda: GroupConfig("G"),
    "MessageQueue": lambda: QUEUE,
    "Message": lambda: Message("T", b"x"),
    "RequestCode": lambda: RequestCode.GET_BROKER_CONFIG,
}


def argument(parameter):
    kind = str(parameter.annotation).split(" | ")[0]
    if kind in BY_CLASS:
        return BY_CLASS[kind]()
    if parameter.name in BY_NAME:
        return BY_NAME[parameter.name]()
    if kind in BY_KIND:
        return BY_KIND[kind]
    if kind.startswith(("Sequence", "Iterable", "Collection", "Mapping", "Set", "set", "list", "tuple", "dict")):
        return {} if kind.startswith(("Mapping", "dict")) else []
    if kind.startswith("Callable"):
        return print
    raise AssertionError(f"say in BY_NAME or BY_CLASS what the parameter {parameter} is")


def arguments(function):
    found = inspect.signature(function).parameters.values()
    needed = [each for each in found if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    given = [each for each in needed if each.name != "self"]
    return (
        [argument(each) for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)],
        {each.name: argument(each) for each in given if each.kind is each.KEYWORD_ONLY},
    )


MAKERS = {
    "Client": lambda client: client,
    "Producer": lambda client: client.producer("G"),
    "TransactionProducer": lambda client: client.transaction_producer("G", print),
    "Consumer": lambda client: client.consumer("G", "T"),
    "LitePullConsumer": lambda client: client.lite_pull("G"),
    "PopConsumer": lambda client: client.pop_consumer("G", "T"),
    "Reader": lambda client: client.reader(),
    "Admin": lambda client: client.admin,
}


@asynccontextmanager
async def made(kind, namesrv, world):
    """A started object of class *kind*."""
    client = Client(namesrv, world=world)
    await client.start()
    try:
        yield MAKERS[kind.__name__](client)
    finally:
        await client.close(1.0)


async def used(client, name):
    """Call and await the result; for an iterator, its first item."""
    function = getattr(type(client), name)
    if isinstance(function, property):
        result = getattr(client, name)
        if name != "admin":
            return
    else:
        positional, named = arguments(function)
        result = getattr(client, name)(*positional, **named)
    if isinstance(result, BaseClient):
        return
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AbstractAsyncContextManager) and not hasattr(result, "__aiter__"):
        async with result:
            pass
    elif hasattr(result, "__anext__"):
        await anext(result)


async def outcome(client, name, world):
    """Return the exception, or None if the call returns or takes too long."""
    task = asyncio.ensure_future(used(client, name))
    timer = world.clock.call_later(LIMIT_S, task.cancel)
    await asyncio.wait([task])
    timer.cancel()
    return None if task.cancelled() else task.exception()


def wrong(name, error):
    if error is None or isinstance(error, StopAsyncIteration):
        return None
    if not isinstance(error, ClientError):
        return f"{name}: {type(error).__name__}: {error}"
    if not str(error).strip():
        return f"{name}: {type(error).__name__} says nothing"
    if "gantrymq " in str(error) or " --" in str(error):
        return f"{name}: names the shell: {error}"
    return None


@pytest.mark.parametrize("kind", CLIENTS)
def test_after_the_close(kind, simulate):
    async def work(world):
        bad = []
        for name in methods(kind):
            async with made(kind, "ns:9876", world) as closed:
                await closed.close()
            bad.append(wrong(name, await outcome(closed, name, world)))
        assert not [each for each in bad if each]

    simulate(work)


def hang_up(peer):
    def answer(request):
        for connection in peer.connections:
            connection.abort()

    return answer


def everything(peer, answer):
    for code in RequestCode:
        if code not in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            peer.answers[code] = answer


ANSWERS = {
    "refusals": lambda peer: Command(1, remark="not today"),
    "unknown requests": lambda peer: Command(3, remark="request type 3 not supported"),
    "no permission": lambda peer: Command(16, remark="check signature failed."),
    "success without anything": lambda peer: Command(0),
    "bytes that are no answer": lambda peer: Command(0, ext={"offset": "x", "queueId": "-"}, body=b"\xff{"),
    "JSON of another kind": lambda peer: Command(0, body=b'[{"a":[1]}]'),
    "silence": lambda peer: None,
    "connections that are cut": hang_up,
}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("who", ["brokers", "name servers"])
def test_servers_that_fail(kind, answers, who, simulate, cluster):
    async def work(world):
        bad = []
        for name in methods(kind):
            async with cluster(world, "a", topics=("T", "TBW102")) as c:
                peer = c.brokers["a"] if who == "brokers" else c.ns
                everything(peer, ANSWERS[answers](peer))
                async with made(kind, c.namesrv, world) as client:
                    error = await outcome(client, name, world)
                bad.append(wrong(name, error))
                if WAY.search(str(error)) and not isinstance(error, TimeoutError | ConnectionError):
                    bad.append(f"{name}: {type(error).__name__} is of no other family: {error}")
        assert not [each for each in bad if each]

    simulate(work)


@pytest.mark.parametrize("kind", CLIENTS)
def test_nobody_there(kind, simulate):
    async def work(world):
        bad = []
        for name in methods(kind):
            async with made(kind, "ns:9876", world) as client:
                error = await outcome(client, name, world)
            bad.append(wrong(name, error))
        assert not [each for each in bad if each]

    simulate(work)


WRONG = (5, None, "a", ["a"], object())


async def given_wrong(client, name, parameter, value):
    """Call the method with *value* for one parameter, and with the results of `argument` for other required ones."""
    function = getattr(type(client), name)
    positional, named = arguments(function)
    signature = inspect.signature(function)
    given = {**signature.bind_partial(client, *positional, **named).arguments, parameter: value}
    del given["self"]
    only = [each.name for each in signature.parameters.values() if each.kind is each.POSITIONAL_ONLY]
    first = [given.pop(each) for each in only if each in given]
    result = getattr(client, name)(*first, **given)
    if inspect.isawaitable(result):
        result = await result
    if hasattr(result, "__anext__"):
        await anext(result)
    elif isinstance(result, AbstractAsyncContextManager) and not isinstance(result, BaseClient):
        await result.__aenter__()


def arguments_of(kind):
    for name in methods(kind):
        if not isinstance(function := getattr(kind, name), property):
            for each in inspect.signature(function).parameters.values():
                if each.name != "self" and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
                    yield name, each.name


@pytest.mark.parametrize("kind", CLIENTS)
def test_arguments_of_a_wrong_type(kind, simulate, cluster):
    async def work(world):
        bad = []
        async with cluster(world, "a", topics=("T", "TBW102")) as c:
            for name, parameter in arguments_of(kind):
                for value in WRONG:
                    async with made(kind, c.namesrv, world) as client:
                        task = asyncio.ensure_future(given_wrong(client, name, parameter, value))
                        timer = world.clock.call_later(LIMIT_S, task.cancel)
                        await asyncio.wait([task])
                        timer.cancel()
                    bad.append(wrong(f"{name}({parameter}={value!r})", None if task.cancelled() else task.exception()))
        assert not [each for each in bad if each]

    simulate(work)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_time_that_is_no_number_of_seconds(kind, simulate, cluster):
    async def work(world):
        bad = []
        times = [each for each in arguments_of(kind) if each[1].endswith("_s")] + [("close", "timeout_s")]
        async with cluster(world, "a", topics=("T", "TBW102")) as c:
            for name, parameter in times:
                for value in (float("nan"), Decimal(3), "3", True, -3 + 0j):
                    async with made(kind, c.namesrv, world) as client:
                        task = asyncio.ensure_future(given_wrong(client, name, parameter, value))
                        timer = world.clock.call_later(LIMIT_S, task.cancel)
                        await asyncio.wait([task])
                        timer.cancel()
                    error = None if task.cancelled() else task.exception()
                    said = isinstance(error, InvalidParameter) and str(error).startswith(f"{parameter} is {value!r}; e")
                    if not said or "inf" in str(error):
                        bad.append(f"{name}({parameter}={value!r}): {error!r}")
        assert not bad

    simulate(work)


def test_every_kind_of_client_is_walked():
    assert Client in CLIENTS and len(CLIENTS) >= 6


@pytest.mark.parametrize(
    ("answers", "family"), [("silence", TimeoutError), ("connections that are cut", ConnectionError)]
)
@pytest.mark.parametrize("send", ["send", "send_async", "send_batch"])
def test_a_send_belongs_to_the_family_of_its_last_attempt(answers, family, send, simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            everything(c.brokers["a"], ANSWERS[answers](c.brokers["a"]))
            message = Message("T", b"x")
            with pytest.raises(family) as raised:
                await getattr(producer, send)([message] if send == "send_batch" else message)
            assert isinstance(raised.value, SendFailed)

    simulate(work)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Producer("a b"),
        lambda: Producer("P", compression="rar"),
        lambda: Producer("P", compress_level=10),
        lambda: Consumer("G", "a/b"),
        lambda: Consumer("G", "T", allocation="NOPE"),
        lambda: Consumer("G", "T", pull_batch=0),
        lambda: Reader("a/b"),
        lambda: Credentials("", ""),
    ],
)
def test_what_cannot_be_made(make):
    with pytest.raises(ClientError):
        make()


@pytest.mark.parametrize("namesrv", ["nonsense", ";", "a:99999"])
def test_what_cannot_be_started(namesrv, simulate):
    async def work(world):
        with pytest.raises(ClientError):
            await Client(namesrv, world=world).start()

    simulate(work)


def test_what_cannot_be_written(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            for send in (client.producer("P").send, client.producer("Q").send_oneway):
                with pytest.raises(ClientError):
                    await send(Message("T", b"x", properties={"name": "\ud800"}))
            with pytest.raises(ClientError):
                await client.admin.request("nonsense", RequestCode.GET_BROKER_CONFIG)

    simulate(work)
