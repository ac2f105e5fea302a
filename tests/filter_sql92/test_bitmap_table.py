"""The table of filters: RocketMQ's rules of versions, deaths and births, and its text."""

import pytest

table_module = pytest.importorskip("gantrymq_filter_sql92.bitmap.filter_table")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from gantrymq.formats.config import pretty  # noqa: E402
from gantrymq.loose_json import loads  # noqa: E402
from gantrymq.model.subscription import Subscription  # noqa: E402
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter  # noqa: E402

FilterTable = table_module.FilterTable
BLOOM = BloomFilter.for_groups(32, 20)
DAY_MS = 86_400_000


def table(bloom=BLOOM):
    return FilterTable(bloom, "SQL92", lambda expression: "wrong" not in expression)


def wants(expression, version=1, topic="T", type_name="SQL92"):
    return Subscription(topic, expression, type_name, version, "G")


def test_a_new_group_is_born_now_and_its_topic_changed():
    found = table()
    found.register("G", [wants("a = 1", 5)], 1000)
    data = found.get("T", "G")
    assert (data.expression, data.version, data.born_ms, data.dead_ms, data.dead) == ("a = 1", 5, 1000, 0, False)
    assert data.bits.positions == (24, 26, 83)
    assert found.changed == {"T"}
    assert found.unsaved


def test_subscriptions_by_tag_are_not_kept():
    found = table()
    found.register("G", [wants("A || B", type_name="TAG"), wants("", topic="U")], 1000)
    assert found.snapshot() == {}
    assert not found.changed


def test_a_higher_version_of_the_same_keeps_the_birth():
    found = table()
    found.register("G", [wants("a = 1", 5)], 1000)
    found.changed.clear()
    found.register("G", [wants("a = 1", 6)], 2000)
    data = found.get("T", "G")
    assert (data.version, data.born_ms) == (6, 1000)
    assert not found.changed


def test_a_higher_version_of_another_expression_is_born_anew():
    found = table()
    found.register("G", [wants("a = 1", 5)], 1000)
    found.register("G", [wants("a = 2", 6)], 2000)
    data = found.get("T", "G")
    assert (data.expression, data.version, data.born_ms) == ("a = 2", 6, 2000)


@pytest.mark.parametrize("version", [4, 5])
def test_a_version_that_is_not_higher_changes_nothing(version):
    found = table()
    found.register("G", [wants("a = 1", 5)], 1000)
    found.register("G", [wants("a = 2", version)], 2000)
    assert found.get("T", "G").expression == "a = 1"


@pytest.mark.parametrize(("version", "alive"), [(4, False), (5, True), (6, True)])
def test_who_comes_back_lives_again_with_its_birth(version, alive):
    found = table()
    found.register("G", [wants("a = 1", 5)], 1000)
    found.gone("G", 2000)
    assert found.get("T", "G").dead_ms == 2000
    found.register("G", [wants("a = 1", version)], 3000)
    assert found.get("T", "G").dead is not alive
    assert found.get("T", "G").born_ms == 1000


def test_a_topic_that_is_not_subscribed_to_any_more_is_dead():
    found = table()
    found.register("G", [wants("a = 1"), wants("b = 1", topic="U")], 1000)
    found.register("G", [wants("b = 1", topic="U")], 2000)
    assert found.get("T", "G").dead_ms == 2000
    assert not found.get("U", "G").dead


def test_a_wrong_expression_is_not_kept_and_takes_the_one_before_along():
    found = table()
    found.register("G", [wants("wrong")], 1000)
    assert found.get("T", "G") is None
    found.register("G", [wants("a = 1", 2)], 1000)
    found.register("G", [wants("wrong", 3)], 2000)
    assert found.get("T", "G") is None
    assert found.snapshot() == {}
    assert found.count == 0


def test_the_dead_are_forgotten_after_a_day():
    found = table()
    found.register("G", [wants("a = 1")], 1000)
    found.gone("G", 2000)
    found.changed.clear()
    found.clean(2000 + DAY_MS - 1, DAY_MS)
    assert found.get("T", "G") is not None
    found.clean(2000 + DAY_MS, DAY_MS)
    assert found.snapshot() == {}
    assert found.changed == {"T"}


def test_the_living_are_never_forgotten():
    found = table()
    found.register("G", [wants("a = 1")], 1000)
    found.clean(1000 + 100 * DAY_MS, DAY_MS)
    assert found.get("T", "G") is not None


def test_a_heartbeat_compiles_a_few_expressions_and_the_next_one_more():
    compiled = []
    found = FilterTable(BLOOM, "SQL92", lambda expression: not compiled.append(expression))
    many = [wants(f"a = {n:01000}", topic=f"T{n}") for n in range(20)]
    found.register("G", many, 1000)
    assert len(compiled) == found.count == 17
    found.register("G", many, 2000)
    assert len(compiled) == found.count == 20


def test_more_filters_than_there_may_be_are_left_out(monkeypatch):
    monkeypatch.setattr(table_module, "MOST_FILTERS", 2)
    found = table()
    for number in range(3):
        found.register(f"G{number}", [wants("a = 1")], 1000)
    assert list(found.of_topic("T")) == ["G0", "G1"]


def test_maps_of_another_size_begin_anew():
    found = table()
    found.register("G", [wants("a = 1")], 1000)
    found.register("H", [wants("a = 2")], 1000)
    found.gone("H", 1500)
    found.changed.clear()
    larger = BloomFilter.for_groups(64, 20)
    found.resize(larger, 2000)
    assert found.changed == {"T"}
    for group, dead in (("G", False), ("H", True)):
        data = found.get("T", group)
        assert (data.born_ms, data.dead, larger.fits(data.bits)) == (2000, dead, True)


def test_bits_are_believed_for_what_was_stored_since_the_birth():
    found = table()
    found.register("G", [wants("a = 1")], 1000)
    data = found.get("T", "G")
    hit = data.mask.to_bytes(14, "little")
    assert data.may_match(hit, 1000) is None
    assert data.may_match(hit, 1001) is True
    assert data.may_match(bytes(14), 1001) is False
    assert data.may_match(b"", 1001) is None
    assert data.may_match(bytes(13), 1001) is None


def test_loading_takes_the_living_for_dead_since_30_s():
    saved = table()
    saved.register("G", [wants("a = 1")], 1000)
    saved.register("H", [wants("a = 1")], 95_000)
    found = table()
    assert found.load(saved.to_json(), 100_000)
    assert found.get("T", "G").dead_ms == 70_000
    assert found.get("T", "H").dead_ms == 95_000
    assert found.count == 2


def test_bits_of_another_size_are_not_loaded():
    saved = table(BloomFilter.for_groups(64, 20))
    saved.register("G", [wants("a = 1")], 1000)
    found = table()
    assert not found.load(saved.to_json(), 2000)
    assert found.snapshot() == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("register"),
            st.sampled_from("GHI"),
            st.lists(
                st.tuples(st.sampled_from("TUV"), st.sampled_from(["a", "b", "wrong"]), st.integers(0, 5)), max_size=3
            ),
        ),
        st.tuples(st.just("gone"), st.sampled_from("GHI"), st.none()),
        st.tuples(st.just("clean"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=30,
)


@given(STEPS)
def test_whatever_happens_a_birth_is_never_older_than_its_expression(steps):
    """The invariant of the bits: since `born_ms` every message was evaluated for exactly this expression."""
    found, now = table(), 1000
    since = {}  # (topic, group): (expression, when the table had it without a break)
    for what, group, given_subscriptions in steps:
        now += 10
        if what == "register":
            found.register(group, [wants(text, version, topic) for topic, text, version in given_subscriptions], now)
        elif what == "gone":
            found.gone(group, now)
        elif what == "clean":
            found.clean(now, 25)
        else:
            text = pretty(found.to_json())
            found = table()
            assert found.load(loads(text.encode()), now)
            assert found.to_json().keys() == {"filterDataByTopic"}
        there = {(topic, each): data for topic, groups in found.snapshot().items() for each, data in groups.items()}
        since = {key: value for key, value in since.items() if key in there and there[key].expression == value[0]}
        for key, data in there.items():
            since.setdefault(key, (data.expression, now))
            assert data.born_ms >= since[key][1]
        assert found.count == len(there)
        assert found.topics() == [topic for topic in found.topics() if found.of_topic(topic)]
        for each in "GHI":
            assert found._topics_of.get(each, set()) == {topic for topic, one in there if one == each}


@given(st.dictionaries(st.text(min_size=1), st.dictionaries(st.text(min_size=1), st.text(min_size=1), max_size=4)))
def test_the_text_holds_the_whole_table(by_topic):
    found = table()
    for topic, groups in by_topic.items():
        for group, expression in groups.items():
            found.register(group, [*subscribed(found, group), wants(expression, 1, topic)], 1000)
    again = table()
    found_text = pretty(found.to_json())
    assert again.load(loads(found_text.encode("utf-8", "surrogatepass")), 1000)
    for topic, groups in found.snapshot().items():
        for group, data in groups.items():
            read = again.get(topic, group)
            assert (read.expression, read.version, read.born_ms, read.bits) == (
                data.expression,
                data.version,
                data.born_ms,
                data.bits,
            )


def subscribed(found, group):
    return [
        wants(data.expression, data.version, topic) for topic in found.topics() if (data := found.get(topic, group))
    ]


@pytest.mark.parametrize(("deleted", "left"), [(("T", ""), {"U"}), (("", "G"), set())], ids=["topic", "group"])
def test_the_filters_of_what_was_deleted_are_forgotten_at_once(deleted, left):
    found = table()
    found.register("G", [wants("a = 1"), wants("a = 2", topic="U")], 1000)
    found.changed.clear()
    found.deleted(*deleted)
    assert set(found.topics()) == left
    assert found.count == len(left)
    assert found.changed == {"T", "U"} - left
    found.register("G", [wants("a = 1")], 2000)
    assert found.get("T", "G").born_ms == 2000
