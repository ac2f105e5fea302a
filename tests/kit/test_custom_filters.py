"""Custom filter types in a broker: found by name, limited by a budget, suspended if they fail."""

import asyncio
import contextlib
import time

import pytest

from gantrymq.errors import BrokerRefused
from gantrymq.interfaces import PullRequest
from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request

pytest.importorskip("gantrymq_storage_memory")
pytest.importorskip("gantrymq_filter_tag")

GROUP = "testing_reader"
LABELS = ("CONTAINS", GROUP, "T")


def put_group(served, **attributes):
    group = request(200, None, dumps(GroupConfig(GROUP, attributes=attributes).to_json()))

    async def ask():
        connection = await RemotingClient(served.running.cluster.world).connect(served.running.broker_address)
        answer = await connection.call(group, 30.0)
        connection.close()
        return answer

    assert served.running.run(ask()).code == 0


def fail(record):
    raise KeyError("colour")


def test_a_client_that_knows_sql_alone_reaches_it_by_name(served):
    served.send("abc", "bcd", "xyz")
    assert served.pull("CONTAINS:: bc", "SQL92") == ["abc", "bcd"]
    assert served.pull(" CONTAINS::x", "SQL92") == ["xyz"]
    assert served.pull("z", "CONTAINS") == ["xyz"]
    assert served.pull("TAG:: A || C", "SQL92") == ["abc"]


def test_an_unknown_name_and_a_wrong_text_are_refused_with_the_reason(served):
    served.send("abc")
    with pytest.raises(BrokerRefused, match="filter message by MISSING; no plugin serves this type"):
        served.pull("MISSING:: abc", "SQL92")
    with pytest.raises(BrokerRefused, match="place 0: a question mark is no text") as caught:
        served.pull("CONTAINS:: ?", "SQL92")
    assert caught.value.response_code == 23


def test_the_attribute_of_a_group_filters_besides_what_it_subscribes_to(served):
    served.send("abc", "bcd", "ace")
    put_group(served, filter="CONTAINS:: c")
    assert served.pull() == ["abc", "ace", "bcd"]
    put_group(served, filter="CONTAINS:: bc")
    assert served.pull() == ["abc", "bcd"]
    assert served.pull("B") == ["bcd"]
    assert served.pull("CONTAINS:: d", "SQL92") == ["bcd"]
    assert served.pull("CONTAINS:: bc", "SQL92") == ["abc", "bcd"]
    put_group(served, **{"+filter": "TAG:: A"})  # as Java's tools write it
    assert served.pull() == ["abc", "ace"]
    put_group(served)  # the filter setting is not mentioned
    assert served.pull() == ["abc", "ace"]
    put_group(served, **{"-filter": ""})
    assert served.pull() == ["abc", "ace", "bcd"]


def test_without_tags_the_attribute_filters_what_subscribes_to_everything(serve):
    served = serve(plugins="kit,storage_memory,nameserver")
    served.send("abc", "bcd")
    assert served.pull() == ["abc", "bcd"]
    put_group(served, filter="CONTAINS:: d")
    assert served.pull() == ["bcd"]
    put_group(served, **{"-filter": ""})
    assert served.pull() == ["abc", "bcd"]


def test_a_wrong_attribute_is_named_where_the_consumer_sees_it(served):
    served.send("abc")
    put_group(served, filter="CONTAINS:: ?")
    with pytest.raises(BrokerRefused, match=f"attribute filter of group {GROUP} is CONTAINS:: .*question mark"):
        served.pull()
    put_group(served, filter="MISSING:: x")
    with pytest.raises(BrokerRefused, match=f"attribute filter of group {GROUP} is MISSING:: x: .*no plugin serves"):
        served.pull("A")


@pytest.mark.parametrize("store", ["memory", "mmap"])
def test_a_slow_filter_ends_its_pulls_early_and_they_go_on(serve, store, monkeypatch):
    pytest.importorskip(f"gantrymq_storage_{store}")
    monkeypatch.setattr("gantrymq_kit.filters.breaker.SLOW_CALLS", 1000)
    served = serve(store=store, customFilterBudgetMs=4)
    served.send(*[f"abc{number:02}" for number in range(24)])

    def spin(record):
        end = time.perf_counter() + 0.003
        while time.perf_counter() < end:
            pass

    served.kind.before = spin
    assert len(served.pull("CONTAINS:: abc", "SQL92")) == 24
    assert served.shown("_turns_over_total")[LABELS] > 0
    assert (
        served.shown("_calls_total")[LABELS] >= 48
    )  # two stages each, the first again if the turn ended at the second
    assert served.shown("_seconds_total")[LABELS] > 0.07


def test_pulls_that_come_together_are_served_in_turns_and_none_is_answered_with_nothing(serve, monkeypatch):
    monkeypatch.setattr("gantrymq_kit.filters.breaker.SLOW_CALLS", 1000)
    served = serve(customFilterBudgetMs=1)
    served.send(*["abc"] * 4)
    broker = served.running.broker

    def spin(record):
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass

    async def pulls():
        queues = [queue for queue in range(4) if broker.store.bounds(Queue("T", queue)).max_offset]
        named = {"expression": "CONTAINS:: b", "expression_type": "SQL92"}
        asked = [PullRequest(GROUP, "T", queue, 0, **named) for queue in queues * 3]
        return await asyncio.gather(*map(broker.messages.pull, asked))

    served.kind.before = spin
    for answer in served.running.run(pulls()):
        assert (answer.code, answer.messages > 0) == (0, True)
    assert served.shown("_turns_over_total")[LABELS] > 0


def test_a_filter_that_raises_is_suspended_with_a_sentence_and_asked_again_after_the_pause(serve):
    served = serve(customFilterPauseMs=1)
    served.send("abc")
    served.kind.before = fail
    sentence = f"filter CONTAINS of group {GROUP} on topic T is suspended: it raised KeyError: 'colour' at T/"
    with pytest.raises(BrokerRefused, match=sentence) as caught:
        served.pull("CONTAINS:: b", "SQL92")
    assert caught.value.response_code == 23
    assert served.shown("_failures_total") == served.shown("_suspensions_total") == {LABELS: 1}
    del served.kind.before
    found = None
    while found is None:  # until the pause is over
        with contextlib.suppress(BrokerRefused):
            found = served.pull("CONTAINS:: b", "SQL92")
    assert found == ["abc"]
    assert served.shown("s_suspended") == {}


def test_while_it_is_suspended_it_is_not_asked_and_another_expression_is(served):
    served.send("abc")
    served.kind.before = fail
    for _ in range(3):
        with pytest.raises(BrokerRefused, match="it is resumed in [0-9]+ s, or when the expression changes"):
            served.pull("CONTAINS:: b", "SQL92")
    assert served.shown("_calls_total") == {LABELS: 2}  # two stages
    assert served.shown("s_suspended") == {LABELS: 1}
    del served.kind.before
    with pytest.raises(BrokerRefused, match="is suspended"):
        served.pull("CONTAINS:: b", "SQL92")
    assert served.pull("CONTAINS:: ab", "SQL92") == ["abc"]
    assert served.pull() == ["abc"]


def test_one_call_that_was_stuck_suspends_at_once(serve):
    served = serve(customFilterStuckMs=10)
    served.send("abc")

    def spin(record):
        end = time.perf_counter() + 0.011
        while time.perf_counter() < end:
            pass

    served.kind.before = spin
    with pytest.raises(BrokerRefused, match="is suspended: one call took [0-9.]+ s at T/"):
        served.pull("CONTAINS:: b", "SQL92")
    assert served.shown("_stuck_total") == {LABELS: 1}
    assert served.shown("_slow_total") == {LABELS: 1}


def test_tags_and_everything_have_no_guard_around_them(served):
    served.send("abc")
    served.pull()
    served.pull("A")
    assert served.shown("_calls_total") == {}


def test_a_restart_begins_anew(served):
    served.send("abc")
    served.pull("CONTAINS:: b", "SQL92")
    served.running.restart()
    served.send("abd")
    assert "abd" in served.pull("CONTAINS:: b", "SQL92")
    assert list(served.shown("_calls_total")) == [LABELS]
