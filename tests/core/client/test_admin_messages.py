"""Message queries: requests to each broker, and their results."""

import random

import pytest

from gantrymq.client import Client
from gantrymq.client.calls.client_ids import parse_unique_id
from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed, NoMessageFound, NoRoute
from gantrymq.model import properties
from gantrymq.model.hosts import pack_host
from gantrymq.model.ids import UniqueIds, offset_id
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

QUERY, VIEW = RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
NONE = Command(22, remark="no message of topic T with key k was found in that time")


@pytest.fixture
def ask(simulate, cluster):
    """Run a function of a Admin and a cluster."""

    def run(work, brokers="ab"):
        async def outer(world):
            async with cluster(world, brokers) as c, Client(c.namesrv, world=world) as client, client.admin as admin:
                return await work(admin, c)

        return simulate(outer)

    return run


@pytest.fixture
def found(record):
    """Return a response with messages that have these KEYS, UNIQ_KEY and store time."""

    def make(*messages, remark=None):
        return Command(
            0,
            remark=remark,
            body=b"".join(
                record(
                    topic=topic,
                    body=body,
                    properties=properties.encode({"KEYS": keys, "UNIQ_KEY": unique}),
                    store_timestamp=stored,
                )
                for topic, body, keys, unique, stored in messages
            ),
        )

    return make


def test_every_broker_is_asked_and_answers_are_put_in_the_order_of_their_times(ask, found):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "x k", "U1", 10), ("T", b"3", "k", "U3", 30))
        c.brokers["b"].answers[QUERY] = found(("T", b"2", "k", "U2", 20))
        messages = await admin.query_message("T", "k", 5, 50, 7)
        assert [(m.body, m.broker_name) for m in messages] == [(b"1", "a"), (b"2", "b"), (b"3", "a")]
        assert c.brokers["b"].of(QUERY)[0].ext == {
            "topic": "T",
            "key": "k",
            "maxNum": "7",
            "beginTimestamp": "5",
            "endTimestamp": "50",
            "_UNIQUE_KEY_QUERY": "false",
        }

    ask(work)


def test_messages_that_only_share_the_hash_are_left_out(ask, found):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "Aa", "U", 10), ("T", b"2", "BB", "V", 20))
        assert [m.body for m in await admin.query_message("T", "BB")] == [b"2"]
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "Aa", "U", 10), ("Other", b"2", "BB", "V", 20))
        with pytest.raises(NoMessageFound, match="a: 2 messages have the same hash and another key"):
            await admin.query_message("T", "BB")

    ask(work, "a")


def test_what_nobody_has_is_said_with_each_brokers_reason(ask, found):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = NONE
        c.brokers["b"].answers[QUERY] = Command(22, remark="messageIndexEnable is false")
        with pytest.raises(NoMessageFound, match="key k; a: no message of .* in that time; b: messageIndexEnable is"):
            await admin.query_message("T", "k")
        with pytest.raises(NoRoute):
            await admin.query_message("Nope", "k")

    ask(work)


def test_a_broker_that_is_away_hides_no_message_of_another(ask, found):
    async def work(admin, c):
        await c.brokers["a"].stop()
        c.brokers["b"].answers[QUERY] = found(("T", b"2", "k", "U2", 20))
        assert [m.body for m in await admin.query_message("T", "k")] == [b"2"]
        c.brokers["b"].answers[QUERY] = NONE
        with pytest.raises(ConnectFailed):
            await admin.query_message("T", "k")  # the message may be there
        await c.brokers["b"].stop()
        with pytest.raises((ConnectFailed, ClientError)):
            await admin.query_message("T", "k")

    ask(work)


def test_an_index_that_is_behind_its_log_is_no_answer(ask, found, caplog):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = Command(2, remark="the index lags 9 bytes behind the log")
        c.brokers["b"].answers[QUERY] = NONE
        with pytest.raises(BrokerRefused, match="the index lags 9 bytes") as refused:
            await admin.query_message("T", "k")
        assert refused.value.response_code == 2
        c.brokers["b"].answers[QUERY] = found(("T", b"2", "k", "U2", 20))
        assert [m.body for m in await admin.query_message("T", "k")] == [b"2"]
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "k", "U1", 10), remark="newer messages may be missing")
        assert [m.body for m in await admin.query_message("T", "k")] == [b"1", b"2"]
        assert caplog.messages[-1] == "a: newer messages may be missing"

    ask(work)


def test_a_refusal_of_every_broker_is_raised(ask):
    async def work(admin, c):
        with pytest.raises(BrokerRefused) as refused:
            await admin.query_message("T", "k")
        assert refused.value.response_code == 3

    ask(work, "a")


class Indexed:
    """A broker with messages of key k at these store times; its index has a resolution of one second."""

    def __init__(self, found, times, name, most=64):
        self.found, self.name, self.most = found, name, most
        self.times = sorted(times)

    def __call__(self, request):
        begin, end, limit = (int(request.ext[name]) for name in ("beginTimestamp", "endTimestamp", "maxNum"))
        fits = [each for each in self.times if begin <= each // 1000 * 1000 <= end][-min(limit, self.most) :]
        if not fits:
            return NONE
        return self.found(*(("T", f"{self.name}{each}".encode(), "k", "U", each) for each in fits))


async def pages_of(admin, **more):
    """All pages; none may be empty but the last."""
    pages = [await admin.query_message_page("T", "k", **more)]
    while pages[-1].more:
        assert pages[-1].messages
        pages.append(await admin.query_message_page("T", "k", **{**more, "end_ms": pages[-1].next_end_ms}))
    return pages


@pytest.mark.parametrize("seed", range(6))
def test_pages_by_key_have_every_message_once_in_order(ask, found, seed):
    rng = random.Random(seed)
    times = {name: [rng.randrange(1, 400_000) for _ in range(rng.choice([3, 64, 300]))] for name in "ab"}

    async def work(admin, c):
        for name, stored in times.items():
            c.brokers[name].answers[QUERY] = Indexed(found, stored, name)
        pages = await pages_of(admin)
        messages = [each for page in pages for each in page.messages]
        stored = [each.store_timestamp for each in messages]
        assert stored == sorted(stored, reverse=True)
        wanted = sorted(f"{name}{each}" for name, stored in times.items() for each in stored)
        assert sorted(each.body.decode() for each in messages) == wanted
        assert not any(page.hidden for page in pages)
        assert not any(page.problems for page in pages)

    ask(work)


def test_a_broker_with_a_lower_limit_has_pages_too(ask, found):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = Indexed(found, range(1000, 101_000, 1000), "a", most=32)
        pages = await pages_of(admin, begin_ms=11_000)
        assert [each.store_timestamp for page in pages for each in page.messages] == list(range(100_000, 10_000, -1000))

    ask(work, "a")


def test_a_second_with_too_many_messages_is_told(ask, found):
    async def work(admin, c):
        times = [*range(1000, 6000, 100), *range(8000, 8200), 9500]
        c.brokers["a"].answers[QUERY] = Indexed(found, times, "a")
        pages = await pages_of(admin)
        stored = [each.store_timestamp for page in pages for each in page.messages]
        assert stored == sorted(set(stored), reverse=True)
        assert stored[:3] == [9500, 8199, 8198]
        assert stored[-50:] == list(range(5900, 900, -100))
        assert any(page.hidden for page in pages)

    ask(work, "a")


def test_a_page_names_brokers_that_do_not_answer(ask, found):
    async def work(admin, c):
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "k", "U1", 10), remark="newer messages may be missing")
        page = await admin.query_message_page("T", "k")
        assert [each.body for each in page.messages] == [b"1"]
        assert page.problems["a"] == "newer messages may be missing"
        assert "does not serve QUERY_MESSAGE" in page.problems["b"]
        c.brokers["a"].answers[QUERY] = NONE
        assert (await admin.query_message_page("T", "k")).messages == ()
        c.brokers["a"].answers[QUERY] = Command(2, remark="the index lags 9 bytes behind the log")
        with pytest.raises(BrokerRefused, match="the index lags"):
            await admin.query_message_page("T", "k")

    ask(work)


def test_a_unique_key_is_asked_for_from_shortly_before_it_was_made(ask, found):
    async def work(admin, c):
        clock = admin._started().world.clock
        await clock.sleep(600)
        unique = UniqueIds(bytes([127, 0, 0, 1]), 1, 2, clock).next()
        made = clock.now_ms()
        await clock.sleep(60)
        c.brokers["a"].answers[QUERY] = found(("T", b"1", "k", unique, 10), ("T", b"2", "k", "other", 20))
        assert [m.body for m in await admin.query_unique("T", unique)] == [b"1"]
        (asked,) = c.brokers["a"].of(QUERY)
        assert asked.ext["_UNIQUE_KEY_QUERY"] == "true"
        assert asked.ext["maxNum"] == "32"
        assert int(asked.ext["beginTimestamp"]) == made - 13 * 3_600_000
        with pytest.raises(NoMessageFound):
            await admin.query_unique("T", "an id of another maker")
        assert c.brokers["a"].of(QUERY)[1].ext["beginTimestamp"] == "0"

    ask(work, "a")


def test_a_message_is_viewed_at_the_broker_that_its_id_names(simulate, peer, record):
    async def work(world):
        broker = await peer(world, "10.0.0.9", 10911).start()
        broker.answers[VIEW] = Command(0, body=record(body=b"here", log_offset=200))
        async with Client("ns:9876", world=world) as client, client.admin as admin:
            found = await admin.view_message(offset_id(pack_host("10.0.0.9", 10911), 200))
            assert (found.body, found.log_offset) == (b"here", 200)
            assert broker.of(VIEW)[0].ext["offset"] == "200"
            broker.answers[VIEW] = Command(1, remark="no message starts at log offset 200")
            with pytest.raises(BrokerRefused, match="no message starts"):
                await admin.view_message(offset_id(pack_host("10.0.0.9", 10911), 200))
            with pytest.raises(ClientError, match="3 characters"):
                await admin.view_message("abc")
        await broker.stop()

    simulate(work)


def test_ids_of_ipv6_clients_are_longer():
    text = "FD00000000000000000000000000000271004E0E2F2A6B5B59DF0000"
    found = parse_unique_id(text)
    assert found[:3] == ("fd00::2", 0x7100, 0x4E0E2F2A)
    assert (found.month_ms, found.counter) == (0x6B5B59DF, 0)
