"""The plugin among others: choice of the service, and operators' requests."""

import importlib
import json

import pytest

pytest.importorskip("gantrymq_storage_memory")

from operator_requests import list_transactions, resume_check, show_transaction

from gantrymq.broker.settings import SCHEMA
from gantrymq.cli.extensible_group import TO_INSTALL
from gantrymq.client import Client
from gantrymq.errors import BrokerRefused, PluginError
from gantrymq.plugins import load_plugins
from gantrymq.remoting.codes import RequestCode
from gantrymq_testing import simulate_cluster
from gantrymq_testing.transaction_contract_bench import COMMIT, TOPIC, TransactionBench

THEIRS = """
from gantrymq.errors import RequestRefused
from gantrymq.hooks import hookimpl


class Theirs:
    async def start(self, broker):
        pass

    async def stop(self):
        pass

    def prepare(self, message):
        raise RequestRefused(7, "theirs takes no half message today")

    async def end(self, request):
        raise RequestRefused(7, "nor a decision")

    async def check(self, now_ms):
        pass


@hookimpl
def gantry_register_transactions(registry):
    registry.add("theirs", Theirs)
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A third-party distribution, as installed by pip in site-packages."""
    (tmp_path / "their_transactions.py").write_text(THEIRS)
    info = tmp_path / "their_transactions-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-transactions\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantrymq]\ntheir_transactions = their_transactions\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()


def half_answer(**settings):
    """Code and remark of the answer to a half message."""

    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        bench = TransactionBench(cluster)
        producer = await bench.producer()
        try:
            await bench.half(producer, b"one")
        except AssertionError as refused:
            return str(refused)
        finally:
            await bench.close()
        return "taken"

    return simulate_cluster(work, settings=settings)


def test_ours_is_taken_where_nothing_is_set(theirs):
    assert set(load_plugins(reserved=SCHEMA).transactions) == {"rocketmq", "theirs"}
    assert half_answer() == "taken"


def test_another_one_that_is_installed_replaces_ours_by_a_setting(theirs):
    assert "theirs takes no half message today" in half_answer(transaction="theirs")


def test_one_that_nobody_offers_stops_the_start():
    with pytest.raises(PluginError, match="transaction=mine: no installed plugin offers a transaction service"):
        half_answer(transaction="mine")


def test_operators_see_what_is_undecided_given_up_and_committed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        bench = TransactionBench(cluster)
        producer = await bench.producer()
        halves = [await bench.half(producer, b"%d" % number, {"KEYS": f"k{number}"}) for number in range(5)]
        await producer.end(halves[0], COMMIT)
        address = cluster.broker_address
        async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
            page = await list_transactions(admin, address, count=3)
            assert [each["keys"] for each in page["transactions"]] == ["k1", "k2", "k3"]
            assert (page["undecided"], page["next"]) == (4, 4)
            first = page["transactions"][0]
            assert (first["checks"], first["producer_group"], first["topic"]) == (0, "producers", TOPIC)
            page = await list_transactions(admin, address, start=page["next"])
            assert [each["unique_id"] for each in page["transactions"]] == [halves[4].unique_id]
            assert page["next"] is None
            assert (await list_transactions(admin, address, group="others"))["transactions"] == []
            shown = await show_transaction(admin, address, halves[0].unique_id)
            assert [each["undecided"] for each in shown["half_messages"]] == [False]
            assert [each["topic"] for each in shown["committed"]] == [TOPIC]

            await bench.asked([producer], 12, 120)
            for _ in range(5):
                await producer.join("p1")
                await cluster.world.clock.sleep(1)
            page = await list_transactions(admin, address, given_up=True)
            assert [each["checks"] for each in page["transactions"]] == [3] * 4
            assert page["undecided"] == 0
            given_up = page["transactions"][0]
            asked = len(producer.asked)
            await resume_check(admin, given_up["offset_id"])
            assert (await list_transactions(admin, address))["undecided"] == 1
            await bench.asked([producer], asked + 1, 30)
            assert producer.asked[-1].ext["msgId"] == given_up["unique_id"]
        await bench.close()

    settings = {"transactionCheckInterval": 1000, "transactionTimeOut": 2000, "transactionCheckMax": 3}
    simulate_cluster(work, settings=settings)


@pytest.mark.parametrize(
    ("code", "ext", "body", "words"),
    [
        (RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": "xyz"}, None, "xyz is not an offset id"),
        (
            RequestCode.RESUME_CHECK_HALF_MESSAGE,
            {"msgId": "7F00000100002A9F0000000000000000"},
            None,
            "is no message of TRANS_CHECK_MAX_TIME_TOPIC",
        ),
        (65011, None, {"count": 0}, "a page starts at 0 or later and has 1 to 1000 entries"),
        (65011, None, {"group": 7}, "group and topic have to be texts"),
        (65012, None, {}, "name the transaction by unique_id"),
    ],
)
def test_what_operators_cannot_ask(code, ext, body, words):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        bench = TransactionBench(cluster)
        producer = await bench.producer()
        answer = await producer.ask(code, ext, None if body is None else json.dumps(body).encode())
        assert answer.code == 1
        assert words in answer.remark
        await bench.close()

    simulate_cluster(work)


def test_the_command_line_says_where_its_commands_come_from():
    ours = {words for words, name in TO_INSTALL.items() if name == "gantrymq-transaction"}
    assert ours == set(load_plugins("transaction", reserved=SCHEMA).commands)


def test_what_would_be_given_up_again_at_once_is_not_resumed():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 2)
        bench = TransactionBench(cluster)
        producer = await bench.producer()
        half = await bench.half(producer, b"one")
        await bench.clock.sleep(2 * 3600 + 60)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
            (given_up,) = (await show_transaction(admin, cluster.broker_address, half.unique_id))["given_up"]
            with pytest.raises(BrokerRefused, match=r"was born 2 hours ago; half messages older than 1 hours"):
                await resume_check(admin, given_up["offset_id"])
        await bench.close()

    simulate_cluster(work, settings={"fileReservedTime": 1}, limit_s=4 * 3600)
