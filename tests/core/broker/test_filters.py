"""The cache of compiled filters, and rejection of filters that raise."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import pull_ext, records

from gantrymq.broker.consuming.filters import Filters
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import FilterBudgetExceeded, FilterFailed, FilterSuspended, RequestRefused, SubscriptionParseFailed
from gantrymq.model.subscription import Subscription
from gantrymq.plugins import Plugins


class Fragile:
    """A filter type with filters that raise if requested by the expression."""

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
        if self._expression == "entry is cancelled":
            raise asyncio.CancelledError
        return True

    def match_message(self, record):
        raise KeyError("message")


class FragileProperties(FragileFilter):
    needles = (b"a",)

    def match_units(self, runs):
        return None

    def match_properties(self, properties):
        return {b"in": True, b"out": False}[properties]


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
    with pytest.raises(RequestRefused, match="by TAG; no plugin serves this type") as caught:
        bare.compiled(subscription("TagA", kind="TAG"))
    assert caught.value.response_code == 1


def test_a_guard_is_asked_about_everything_where_no_plugin_serves_tags():
    bare = Filters(Settings(SCHEMA), {})
    bare.guard_with(lambda subscription, kind: FragileFilter(f"guarded {kind.name}"))
    assert not bare.compiled(subscription("*", kind="TAG")).accepts_all
    with pytest.raises(RequestRefused, match="no plugin serves this type"):
        bare.compiled(subscription("TagA", kind="TAG"))


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


def test_a_filter_that_raises_cancelled_error_fails_as_with_any_other(filters):
    with pytest.raises(FilterFailed, match="CancelledError"):
        filters.compiled(subscription("entry is cancelled")).match_entry(0, None)


def test_a_compilation_that_raises_cancelled_error_is_counted_and_fails():
    class Cancelled:
        def compile(self, subscription):
            raise asyncio.CancelledError

    failed = []
    filters = Filters(Settings(SCHEMA), {"FRAGILE": Cancelled()}, failed.append)
    with pytest.raises(RuntimeError, match="raised CancelledError"):
        filters.compiled(subscription())
    assert failed == ["FRAGILE"]


def test_a_filter_of_properties_is_guarded_as_one(monkeypatch, filters):
    assert not hasattr(filters.compiled(subscription()), "needles")
    monkeypatch.setattr(Fragile, "compile", lambda self, subscription: FragileProperties(subscription.expression))
    found = filters.compiled(subscription("y"))
    assert (found.needles, found.match_units([])) == ((b"a",), None)
    assert found.match_properties(b"in") and not found.match_properties(b"out")
    with pytest.raises(FilterFailed, match="KeyError: b'odd'"):
        found.match_properties(b"odd")
    assert not hasattr(found, "match_slice")


def test_a_filter_of_slices_is_guarded_as_one(monkeypatch, filters):
    class FragileSlices(FragileProperties):
        def match_slice(self, properties):
            return {(b"in",): (0,)}[properties]

    monkeypatch.setattr(Fragile, "compile", lambda self, subscription: FragileSlices(subscription.expression))
    found = filters.compiled(subscription("y"))
    assert found.match_slice((b"in",)) == (0,)
    with pytest.raises(FilterFailed, match="KeyError"):
        found.match_slice((b"odd",))


def test_a_rejected_subscription_stays_off_until_its_expression_changes(filters):
    filters.compiled(subscription("entry raises"))
    sentence = filters.reject(subscription("entry raises"), FilterFailed("KeyError: 1"))
    assert "group CG on topic T" in sentence
    assert "KeyError: 1" in sentence
    with pytest.raises(SubscriptionParseFailed, match="switched off"):
        filters.compiled(subscription("entry raises"))
    assert filters.compiled(subscription("entry raises", group="Other"))
    assert filters.compiled(subscription("x"))


def test_a_refused_expression_is_not_compiled_again(monkeypatch, filters):
    with pytest.raises(SubscriptionParseFailed, match="place 4: no such word"):
        filters.compiled(subscription("bad text"))
    monkeypatch.setattr(Fragile, "compile", None)
    with pytest.raises(SubscriptionParseFailed, match="place 4: no such word"):
        filters.compiled(subscription("bad text"))


def test_ten_thousand_expressions_are_kept_and_long_ones_push_out_who_was_not_used(filters):
    short = [filters.compiled(subscription("x", group=f"G{i}")) for i in range(15_000)]
    assert all(filters.compiled(subscription("x", group=f"G{i}")) is found for i, found in enumerate(short))
    used = filters.compiled(subscription("x", group="G0"))
    for i in range(20):
        filters.compiled(subscription(f"{i:16384}"))
        assert filters.compiled(subscription("x", group="G0")) is used
    assert filters.compiled(subscription("x", group="G1")) is not short[1]


def test_what_begins_with_a_name_is_of_that_type(filters):
    named = subscription("FRAGILE:: bad text", kind="SQL92")
    with pytest.raises(SubscriptionParseFailed, match="place 4"):
        filters.compiled(named)
    assert filters.compiled(subscription(" FRAGILE::all", kind="SQL92")).accepts_all
    with pytest.raises(RequestRefused, match="by SQL92; no plugin serves"):
        filters.compiled(subscription("a = 'FRAGILE:: all'", kind="SQL92"))
    with pytest.raises(RequestRefused, match="by TAG; no plugin serves"):
        filters.compiled(subscription("FRAGILE:: all", kind="TAG"))


@pytest.mark.parametrize("text", ["A:: b", "  A::b", "A::\tb", "A_1.x-y:: b c\nd", "A::", "A:: B:: c"])
def test_a_name_is_what_stands_before_two_colons(text):
    resolved = subscription(text, kind="SQL92").resolved()
    name, _, rest = text.strip().partition("::")
    assert (resolved.type, resolved.expression, resolved.group) == (name, rest.strip(), "CG")


@pytest.mark.parametrize("text", ["", "a", "a = 'b:: c'", ":: b", "1A:: b", "A ::b", "'A':: b", "a:b", "A:: b"])
def test_everything_else_stays_what_it_is(text):
    kind = "TAG" if text == "A:: b" else "SQL92"
    assert subscription(text, kind=kind).resolved() == subscription(text, kind=kind)


class Cautious:
    """A guard."""

    def __init__(self):
        self.asked = []

    def __call__(self, subscription, kind):
        self.asked.append((subscription.type, subscription.expression))
        return FragileFilter("guarded") if subscription.group == "Guarded" else None


def test_a_guard_compiles_what_it_wants_and_is_asked_again_when_the_group_changes(filters):
    guard = Cautious()
    before = filters.compiled(subscription())
    filters.guard_with(guard)
    assert filters.compiled(subscription()) is not before
    assert type(filters.compiled(subscription("entry raises", group="Guarded"))) is FragileFilter
    filters.compiled(subscription("FRAGILE:: x", kind="SQL92"))
    for _ in range(2):
        filters.compiled(subscription())
    assert guard.asked == [("FRAGILE", "x"), ("FRAGILE", "entry raises"), ("FRAGILE", "x")]
    filters.reject(subscription("entry raises"), FilterFailed("KeyError: 1"))
    filters.forget("CG")
    filters.compiled(subscription())
    filters.compiled(subscription("entry raises"))
    filters.compiled(subscription("entry raises", group="Guarded"))
    assert guard.asked[3:] == [("FRAGILE", "x"), ("FRAGILE", "entry raises")]


@pytest.mark.parametrize("passing", [FilterSuspended, FilterBudgetExceeded])
def test_what_passes_leaves_the_subscription(filters, passing):
    filters.compiled(subscription("x"))
    assert filters.reject(subscription("x"), passing("come again")) == "come again"
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
