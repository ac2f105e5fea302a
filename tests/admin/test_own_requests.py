"""Typed calls for requests of GantryMQ's own, against a broker that serves them and one that does not."""

import asyncio

import attrs
import pytest

from gantrymq.client import Client
from gantrymq.client.admin import AnswerUnreadable, RequestNotServed
from gantrymq.errors import BrokerRefused, InvalidParameter
from gantrymq.interfaces import SendRequest
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq_admin import summaries
from gantrymq_admin.asking import read
from gantrymq_admin.explanations import GroupExplanation, explain_group, explained_settings
from gantrymq_admin.figures import plugin_figures
from gantrymq_admin.pending import pending_messages, pending_page
from gantrymq_admin.summaries import ConnectionSummaries, GroupSummaries, TopicSummaries, summary_column, summary_page
from gantrymq_admin.transactions import list_transactions, resume_check, show_transaction

for each in ("schedule", "transaction", "diagnosis", "filter_tag", "storage_memory"):
    pytest.importorskip(f"gantrymq_{each}")
group_rows = pytest.importorskip("gantrymq_diagnosis.group_rows")
topic_rows = pytest.importorskip("gantrymq_diagnosis.topic_rows")

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01HALF\x02"
CALLS = {
    "groups": lambda admin, at: summary_page(admin, at, GroupSummaries),
    "connections": lambda admin, at: summary_page(admin, at, ConnectionSummaries),
    "topics": lambda admin, at: summary_page(admin, at, TopicSummaries),
    "explain": lambda admin, at: explain_group(admin, at, "CG"),
    "figures": plugin_figures,
    "settings": explained_settings,
    "pending": pending_page,
    "transactions": list_transactions,
    "transaction": lambda admin, at: show_transaction(admin, at, "HALF"),
}


@pytest.fixture
def run(gantrymq_simulation):
    """``await work(admin, cluster)`` with a broker that has topic T with two queues."""

    def run(work, **settings):
        async def main(cluster):
            await cluster.create_topic("T", 2)
            async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
                return await work(admin, cluster)

        return gantrymq_simulation(main, settings=settings)

    return run


async def join(admin, cluster, group="CG"):
    wanted = [{"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}]
    body = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": group, "subscriptionDataSet": wanted}]})
    await admin.request(cluster.broker_address, RequestCode.HEART_BEAT, body=body)


@pytest.mark.parametrize(
    ("row", "summary"), [(group_rows.GroupRow, summaries.GroupSummary), (topic_rows.TopicRow, summaries.TopicSummary)]
)
def test_brokers_and_tools_have_the_same_row(row, summary):
    served = {each.name for each in attrs.fields(row) if each.metadata.get("json", True)}
    assert served == {each.name for each in attrs.fields(summary)}


def test_settings_have_their_meaning_and_source(run):
    async def work(admin, cluster):
        address = cluster.broker_address
        await admin.change_broker_settings(address, {"defaultQueryMaxNum": "40"})
        found = {each.key: each for each in await explained_settings(admin, address)}
        changed = found["defaultQueryMaxNum"]
        assert (changed.value, changed.default, changed.rocketmq_default, changed.runtime) == ("40", "32", "32", True)
        assert changed.source.startswith("UPDATE_BROKER_CONFIG of ")
        assert changed.help == "Most messages of one query by unique key." and changed.at_least == 1
        assert found["autoCreateTopicEnable"].value in ("true", "false")
        assert found["brokerRole"].source == "default" and not found["brokerRole"].runtime
        assert not any(key.startswith("tls.server") for key in found)

    run(work)


def test_a_group_is_explained(run):
    async def work(admin, cluster):
        await join(admin, cluster)
        for _ in range(3):
            await cluster.send("T", b"x")
        found = await explain_group(admin, cluster.broker_address, "CG")
        assert (found.group, found.behind, found.system, found.dead_letters) == ("CG", 3, False, 0)
        assert [each.client_id for each in found.members] == ["c1"]
        assert [(each.topic, each.queue, each.reason) for each in found.queues] == [
            ("T", 0, "not-owned"),
            ("T", 1, "not-owned"),
        ]
        assert sum(each.behind for each in found.queues) == 3
        only = await explain_group(admin, cluster.broker_address, "CG", "T")
        assert [each.topic for each in only.queues] == ["T", "T"]
        with pytest.raises(BrokerRefused, match="there is no group Nobody"):
            await explain_group(admin, cluster.broker_address, "Nobody")

    run(work)


class Answering:
    """An admin whose brokers all return one answer."""

    def __init__(self, answer):
        self.answer = answer

    async def request_parsed(self, _address, _code, parse, *_given, **_more):
        return parse(self.answer)


@pytest.mark.parametrize(
    ("of_queue", "of_group", "behind", "lag_ms"),
    [
        ({"behind": 0, "lag_ms": 0}, {}, 0, 0),
        ({"behind": 0, "lag_ms": None}, {}, None, None),  # of an older broker
        ({"behind": 3, "lag_ms": None}, {}, 3, 0),
        ({"behind": 0, "lag_ms": 0, "behind_known": True}, {"behind_known": True, "lag_known": True}, 0, 0),
        ({"behind": 0, "lag_ms": None, "behind_known": False}, {"behind_known": False, "lag_known": False}, None, None),
        ({"behind": 3, "lag_ms": None, "behind_known": True}, {"behind_known": True, "lag_known": False}, 3, None),
    ],
)
def test_a_lag_that_is_not_known_is_no_0(of_queue, of_group, behind, lag_ms):
    plain = dict.fromkeys(("owner", "last_pull_ms_ago", "last_pull_by", "next_pull", "committed"))
    plain |= {"hit_rate": None, "locked_by": None, "reset_to": None, "min_offset": 0, "max_offset": 9, "held": []}
    queue = {**plain, "topic": "T", "queue": 0, "reason": "broadcasting", "sentence": "members broadcast", **of_queue}
    retry = {"behind": 0, "waiting": 0, "waiting_more": False, "next_due_ms": None}
    answer = {"broker": "a", "group": "G", "system": False, "policy": "warn", "retry": retry, "dead_letters": 0}
    answer |= {"members": [], "conflicts": [], "diagnosis": [], "queues": [queue], "lag_ms": 0, **of_group}
    found = asyncio.run(explain_group(Answering({**answer, "behind": of_queue["behind"]}), "10.0.0.1:1", "G"))
    assert (found.behind, found.lag_ms, found.queues[0].behind) == (behind, lag_ms, behind)


@pytest.mark.parametrize(("more", "behind"), [({}, None), ({"behind_known": True}, 0), ({"behind_known": False}, None)])
def test_a_row_says_whether_its_lag_is_known(more, behind):
    numbers = dict.fromkeys(("members", "behind", "retry_behind", "retry_waiting", "dead_letters", "consumed_per_s"), 0)
    row = {"group": "G", "system": False, "consume_enable": True, "model": None, "late_ms": None, **numbers, **more}
    page = {"broker": "a", "computed_ms": 1, "age_ms": 0, "total": 1, "retry_waiting_more": False, "groups": [row]}
    assert asyncio.run(summary_page(Answering(page), "10.0.0.1:1", GroupSummaries)).groups[0].behind == behind


def test_groups_and_topics_come_sorted_and_by_page(run):
    async def work(admin, cluster):
        at = cluster.broker_address
        await cluster.create_topic("Many", 1)
        for group, topic in (("A", "T"), ("B", "Many"), ("C", "Many")):
            cluster.broker.groups.require(group)
            cluster.broker.offsets.commit(group, Queue(topic, 0), 0)
        for topic in ("T", "Many", "Many"):
            await cluster.put(topic, b"x")
        first = await summary_page(admin, at, GroupSummaries, most=2)
        assert [(each.group, each.behind, each.model) for each in first.groups] == [("B", 2, None), ("C", 2, None)]
        assert (first.broker, first.total) == ("broker-a", 3)
        (last,) = (await summary_page(admin, at, GroupSummaries, start=2, most=2)).groups
        assert (last.group, last.behind, last.late_ms is not None) == ("A", 1, True)
        late = await summary_page(admin, at, GroupSummaries, order="late", contains="a")
        assert [each.group for each in late.groups] == ["A"]
        assert len((await summary_page(admin, at, GroupSummaries, system=True, most=200)).groups) > 3
        topics = await summary_page(admin, at, TopicSummaries, order="kept")
        assert [(each.topic, each.kept, each.groups) for each in topics.topics] == [("Many", 2, 2), ("T", 1, 1)]
        with pytest.raises(BrokerRefused, match="a page has 1 to 200 rows"):
            await summary_page(admin, at, TopicSummaries, most=201)

    run(work)


def test_a_column_is_read_to_its_end(run, monkeypatch):
    monkeypatch.setattr(summaries, "MAX_VALUES", 2)

    async def work(admin, cluster):
        at = cluster.broker_address
        for number in range(3):
            await cluster.create_topic(f"T{number}", number + 1)
            cluster.broker.groups.require(f"G{number}")
            cluster.broker.offsets.commit(f"G{number}", Queue(f"T{number}", 0), 0)
            for _ in range(number):
                await cluster.put(f"T{number}", b"x")
        found = await summary_column(admin, at, TopicSummaries, "kept")
        assert [found.values[f"T{number}"] for number in range(3)] == [0, 1, 2]
        assert len(found.values) > 5 and found.age_ms >= 0
        behind = (await summary_column(admin, at, GroupSummaries, "behind")).values
        assert [behind[f"G{number}"] for number in range(3)] == [0, 1, 2]
        page = await summary_page(admin, at, GroupSummaries, names=["G2", "G1"])
        assert [each.group for each in page.groups] == ["G2", "G1"]

    run(work)


def test_connections_tell_who_is_there(run):
    async def work(admin, cluster):
        await join(admin, cluster)
        found = await summary_page(admin, cluster.broker_address, ConnectionSummaries)
        (only,) = found.connections
        assert (only.client_id, only.consumers, only.producers, only.more_groups) == ("c1", ("CG",), (), 0)
        assert (only.listener, only.encrypted, only.certificate, only.user) == ("default", False, "", "")
        assert found.computed_ms >= only.since_ms > 0

    run(work)


def test_figures_of_plugins_are_sorted_by_name(run):
    async def work(admin, cluster):
        found = await plugin_figures(admin, cluster.broker_address)
        assert [each.name for each in found] == sorted(each.name for each in found)
        (conflicts,) = [each for each in found if each.name == "gantrymq_group_conflicts"]
        assert (conflicts.value, conflicts.counts, conflicts.sentences) == (0, False, ())

    run(work)


def test_pending_messages_come_page_by_page(run):
    async def work(admin, cluster):
        for number in range(5):
            await cluster.send("T", b"x", system_properties={"DELAY": str(3 - number % 3)})
        at = cluster.broker_address
        page = await pending_page(admin, at, most=3)
        assert page.sources["levels"]["waiting"] == 5
        due = [each.due_ms for each in page.messages]
        assert due == sorted(due)
        rest = await pending_page(admin, at, most=3, place=page.place)
        assert (len(page.messages), len(rest.messages), rest.place) == (3, 2, None)
        assert {each.topic for each in (*page.messages, *rest.messages)} == {"T"}
        assert (await pending_page(admin, at, topic="Other")).messages == ()
        pages = [each async for each in pending_messages(admin, at, most=4)]
        assert sum(len(each.messages) for each in pages) == 4
        with pytest.raises(InvalidParameter, match="most=257"):
            await pending_page(admin, at, most=257)

    run(work, messageDelayLevel="1m 2m 3m")


def test_transactions_are_listed_shown_and_resumed(run):
    async def work(admin, cluster):
        at = cluster.broker_address
        await cluster.broker.messages.send(SendRequest("PG", "T", b"half", HALF, queue_id=0, sys_flag=4))
        page = await list_transactions(admin, at)
        (half,) = page.transactions
        assert (half.unique_id, half.producer_group, half.topic, half.checks) == ("HALF", "PG", "T", 0)
        assert (page.undecided, page.next) == (1, None)
        assert half.next_check_ms is not None
        found = await show_transaction(admin, at, "HALF")
        assert [each.undecided for each in found.half_messages] == [True]
        assert (found.committed, found.given_up) == ((), ())
        with pytest.raises(BrokerRefused, match="is no message of TRANS_CHECK_MAX_TIME_TOPIC"):
            await resume_check(admin, half.offset_id)
        with pytest.raises(InvalidParameter):
            await resume_check(admin, "xyz")

    run(work)


@pytest.mark.parametrize("name", CALLS)
def test_a_broker_without_the_plugin_does_not_serve_the_request(run, name):
    async def work(admin, cluster):
        with pytest.raises(RequestNotServed):
            await CALLS[name](admin, cluster.broker_address)

    run(work, plugins="storage_memory,filter_tag,nameserver")


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_without_its_members_is_unreadable(run, name, monkeypatch):
    async def work(admin, cluster):
        async def nothing(*_, **_more):
            return type("Reply", (), {"payload": b'{"group":7,"figures":[{}]}'})

        monkeypatch.setattr(admin, "request", nothing)
        with pytest.raises(AnswerUnreadable):
            await CALLS[name](admin, cluster.broker_address)

    run(work)


def test_a_member_of_the_wrong_type_is_refused():
    with pytest.raises(TypeError, match="broker is 7, not str"):
        read(GroupExplanation, {"broker": 7})
    with pytest.raises(KeyError, match="broker"):
        read(GroupExplanation, {})
