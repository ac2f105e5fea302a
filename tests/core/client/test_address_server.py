"""Name servers that a web page lists."""

import asyncio

import pytest

from gantrymq.client import CallTimeout, Client, ClientError, ConnectFailed, Message
from gantrymq.client.errors import AnswerUnreadable, OptionUnusable
from gantrymq.client.routing.address_server import address_server

PAGE = "http://web:8080/rocketmq/nsaddr"


class Web(asyncio.Protocol):
    """Answers every request with the current `page`, or never if it is None; records the requests."""

    def __init__(self, page, asked):
        self.page, self.asked, self._request = page, asked, ""

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._request += data.decode()
        if not self._request.endswith("\r\n\r\n"):
            return
        self.asked.append(self._request)
        if self.page[0] is not None:
            self._transport.write(self.page[0])
            self._transport.close()


async def web(world, page):
    asked = []
    listener = await world.network.listen("web", 8080, lambda: Web(page, asked))
    return listener, asked


def ok(text):
    return f"HTTP/1.1 200 OK\r\nServer: test\r\n\r\n{text}".encode()


@pytest.mark.parametrize(
    ("given", "unit", "shown"),
    [
        (PAGE, "", PAGE),
        (PAGE, "blue", f"{PAGE}-blue?nofix=1"),
        ("http://web/list", "", "http://web:80/list"),
        ("http://[::1]:81/list", "", "http://[::1]:81/list"),
        ("http://a:9876", "", None),
        ("http://any.thing/a:9876", "", None),
        ("http://MQ_INST_1_2.host:80", "", None),
        ("a:9876;b:9876", "", None),
        ("", "", None),
    ],
)
def test_what_names_a_page(given, unit, shown):
    found = address_server(given, unit)
    assert (None if found is None else str(found)) == shown


def test_name_servers_are_those_of_the_page_and_change_with_it(simulate, cluster, peer):
    async def work(world):
        page = [ok("dead:9876;ns:9876\nand more\n")]
        listener, asked = await web(world, page)
        async with cluster(world, "a"), Client(PAGE, world=world, unit_name="blue") as client:
            assert set(client.name_servers) == {"dead:9876", "ns:9876"}
            assert asked[0].startswith("GET /rocketmq/nsaddr-blue?nofix=1 HTTP/1.0\r\nHost: web\r\n")
            assert (await client.producer("P").send(Message("T", b"x"))).ok
            page[0] = ok("ns:9876")
            await world.clock.sleep(121)
            assert client.name_servers == ("ns:9876",)
            page[0] = b"HTTP/1.1 500 Oh\r\n\r\nother:9876"
            await world.clock.sleep(121)
            assert client.name_servers == ("ns:9876",)
            page[0] = ok("other:9876")
            client.set_name_servers("mine:9876")
            await world.clock.sleep(300)
            assert client.name_servers == ("mine:9876",)
        await listener.close()

    simulate(work)


@pytest.mark.parametrize(
    ("page", "kind", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", AnswerUnreadable, "answered b'HTTP/1.1 404 Not Found"),
        (b"", AnswerUnreadable, "expected HTTP status 200"),
        (ok(""), OptionUnusable, "names no server"),
        (ok("<html>"), OptionUnusable, "the page http://web:8080/rocketmq/nsaddr: '<html>' is not host:port"),
        (ok("x" * 70000), OptionUnusable, "is not host:port"),
        (None, CallTimeout, "sent no complete response within 3 s"),
    ],
)
def test_a_page_that_does_not_say_it(page, kind, said, simulate):
    async def work(world):
        listener, _ = await web(world, [page])
        with pytest.raises(kind, match=said) as raised:
            await Client(PAGE, world=world).start()
        assert isinstance(raised.value, ClientError)
        await listener.close()

    simulate(work)


def test_no_address_server(simulate):
    async def work(world):
        with pytest.raises(ConnectFailed, match="the address server http://web:8080/rocketmq/nsaddr cannot be reached"):
            await Client(PAGE, world=world).start()

    simulate(work)


def test_a_start_that_is_given_up(simulate):
    async def work(world):
        listener, _ = await web(world, [None])
        starting = asyncio.ensure_future(Client(PAGE, world=world).start())
        await world.clock.sleep(1)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await listener.close()

    simulate(work)
