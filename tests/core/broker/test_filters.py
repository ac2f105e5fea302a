"""Compiled filters: kept, dropped, and switched off when they raise."""

from __future__ import annotations

import pytest
from broker_desk import pull_ext, records

from gantrymq.broker.consuming.filters import Filters
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import FilterFailed, RefusedWith, SubscriptionParseFailed
from gantrymq.model.subscription import Subscription
from gantrymq.plugins import Plugins


class Fragile:
    """A filter type whose filters raise where their expression says so."""

    name = "FRAGILE"

    def __init__(self):
        self.compiled = 0

    def compile(self, subscription):
        if subscription.expression == "bad text":
            raise SubscriptionParseFailed("place 4: no such word")
        self.compiled += 1
        return FragileFilter(subscription.expression)


class FragileFilter:
    def __init__(self, expression):
        self.accepts_all = expression == "all"
        self.needs_message = expression == "message raises"
        self._expression = expression

    def match_entry(self, tags_code, ext):
        if self._expression == "entry raises":
            raise KeyError("entry")
        return True

    def match_message(self, record):
        raise KeyError("message")


def subscription(expression="x", *, kind="FRAGILE", group="CG", topic="T"):
    return Subscription(topic, expression, kind, 1, group)


@pytest.fixture
def filters():
    return Filters(Settings(SCHEMA), {"FRAGILE": Fragile()})


def test_one_expression_is_compiled_once(filters):
    first = filters.compiled(subscription())
    assert filters.compiled(subscription()) is first
    assert filters.compiled(subscription(group="Other")) is not first


def test_everything_needs_no_plugin_but_tags_do():
    bare = Filters(Settings(SCHEMA), {})
    assert bare.compiled(subscription("*", kind="TAG")).accepts_all
    with pytest.raises(RefusedWith, match="by TAG; no plugin serves this type") as caught:
        bare.compiled(subscription("TagA", kind="TAG"))
    assert caught.value.response_code == 1
    assert not bare.supports("TAG")


def test_an_expression_that_does_not_compile_is_refused_each_time(filters):
    for _ in range(2):
        with pytest.raises(SubscriptionParseFailed, match="place 4"):
            filters.compiled(subscription("bad text"))


@pytest.mark.parametrize(
    ("expression", "stage"), [("entry raises", "match_entry"), ("message raises", "match_message")]
)
def test_whatever_a_filter_raises_becomes_one_error(filters, expression, stage):
    compiled = filters.compiled(subscription(expression))
    with pytest.raises(FilterFailed, match="KeyError"):
        getattr(compiled, stage)(*((0, None) if stage == "match_entry" else (None,)))


def test_a_rejected_subscription_stays_off_until_its_expression_changes(filters):
    filters.compiled(subscription("entry raises"))
    sentence = filters.reject(subscription("entry raises"), FilterFailed("KeyError: 1"))
    assert "group CG on topic T" in sentence
    assert "KeyError: 1" in sentence
    with pytest.raises(SubscriptionParseFailed, match="switched off"):
        filters.compiled(subscription("entry raises"))
    assert filters.compiled(subscription("entry raises", group="Other"))
    assert filters.compiled(subscription("x"))


# --- in a broker ----------------------------------------------------------------------------------------------------


@pytest.fixture
def fragile(plugins):
    return Plugins(stores=plugins.stores, filters={"FRAGILE": Fragile})


@pytest.mark.parametrize("expression", ["entry raises", "message raises"])
def test_a_filter_that_raises_ends_its_pulls_with_the_reason_and_the_broker_goes_on(broker, fragile, expression):
    async def main(desk):
        await desk.send("T")
        for _ in range(2):
            answer = await desk.pull("T", subscription=expression, expressionType="FRAGILE")
            assert answer.code == 23
            assert "KeyError" in answer.remark
            assert "switched off until the subscription changes" in answer.remark
        assert len(records(await desk.pull("T", subscription="all", expressionType="FRAGILE"))) == 1
        assert len(records(await desk.pull("T"))) == 1

    broker(main, plugins=fragile)


@pytest.mark.parametrize("expression", ["entry raises", "message raises"])
def test_a_filter_that_raises_on_an_arrival_harms_no_sender_and_no_other_consumer(broker, fragile, expression):
    async def main(desk):
        await desk.send("T")
        fields = {"subscription": expression, "expressionType": "FRAGILE"}
        bad = desk.later(11, pull_ext("T", 1, wait_s=15, **fields))
        await desk.clock.sleep(1)
        good = desk.peer().later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(1)
        answer = await desk.peer().send("T")
        assert answer.code == 0
        assert len(records(await good)) == 1
        assert (await bad).code == 23
        assert desk.clock.monotonic() < 5

    broker(main, plugins=fragile)
