"""Documents of definitions: written, parsed and compared, without a cluster."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq_admin.definitions.cluster_tables import ClusterTables, export_document
from gantrymq_admin.definitions.difference import ORDER_CONFIG, compare, sources_of
from gantrymq_admin.definitions.document import DefinitionsInvalid, parse
from gantrymq_admin.definitions.fields import GROUP, KINDS, TOPIC

PAGE = Path(__file__).parents[2] / "docs/operations/definitions.md"


def cluster(order=None, name="C", **brokers):
    """A cluster with a list of topics and groups for each broker."""
    tables = {
        broker: {
            TOPIC: {each.name: TOPIC.values(each) for each in configs if isinstance(each, TopicConfig)},
            GROUP: {each.name: GROUP.values(each) for each in configs if isinstance(each, GroupConfig)},
        }
        for broker, configs in sorted(brokers.items())
    }
    return ClusterTables(name, {broker: f"{broker}:10911" for broker in tables}, tables, order or {})


def members(found, **more):
    return json.loads(export_document(found, **more).to_text())


def document(**top):
    return parse(json.dumps({"definitions_version": 1, **top}), "d.json")


def changes(wanted, found, *moves):
    difference = compare(wanted, found, sources_of(wanted, tuple(found.brokers), moves))
    return [
        (each.word, each.name, [(at.broker, at.before is None, at.fields) for at in each.at])
        for each in difference.changes
    ]


# --- writing --------------------------------------------------------------------------------------------------------


def test_values_that_brokers_share_are_written_once():
    found = cluster(
        a=[TopicConfig("T", 8, 8), TopicConfig("Here", 1, 1), GroupConfig("G", retry_max_times=3)],
        b=[TopicConfig("T", 4, 8, perm=4), GroupConfig("G", retry_max_times=3)],
        c=[TopicConfig("T", 8, 8), GroupConfig("G", retry_max_times=3, consume_enable=False)],
    )
    assert members(found) == {
        "definitions_version": 1,
        "cluster": "C",
        "brokers": ["a", "b", "c"],
        "topics": {
            "Here": {"read_queues": 1, "write_queues": 1, "only_at": ["a"]},
            "T": {"read_queues": 8, "write_queues": 8, "brokers": {"b": {"read_queues": 4, "perm": 4}}},
        },
        "groups": {"G": {"retry_max_times": 3, "brokers": {"c": {"consume_enable": False}}}},
        "order_configs": {},
    }


def test_the_text_does_not_depend_on_the_order_in_which_brokers_list_things():
    subscriptions = [{"topic": topic, "expression": "*", "version": 1} for topic in "ab"]
    texts = [
        export_document(
            cluster(
                a=[
                    *[TopicConfig(name, 1, 1) for name in listed],
                    TopicConfig("T", 1, 1, attributes=dict.fromkeys(listed, "1")),
                    GroupConfig("G", subscriptions=subscriptions[::step]),
                ],
                order=dict.fromkeys(listed, "a:1"),
            )
        ).to_text()
        for listed, step in ((["X", "Y"], 1), (["Y", "X"], -1))
    ]
    assert texts[0] == texts[1]
    assert texts[0].endswith("}\n")


def test_what_is_rocketmqs_own_is_left_out():
    own = [
        TopicConfig("TBW102", 8, 8),
        TopicConfig("rmq_sys_wheel_timer", 1, 1),
        TopicConfig("C", 16, 16),
        TopicConfig("a", 1, 1),
        TopicConfig("C_REPLY_TOPIC", 1, 1),
        TopicConfig("%RETRY%G", 2, 2),
        TopicConfig("%RETRY%G+T", 1, 1),
        TopicConfig("%DLQ%G", 1, 1),
        TopicConfig("%DLQ%H", 1, 1, perm=2),
        GroupConfig("TOOLS_CONSUMER"),
        GroupConfig("CID_RMQ_SYS_TRANS"),
    ]
    changed = [TopicConfig("%RETRY%H", 4, 4), TopicConfig("%DLQ%I", 1, 1, perm=4)]
    found = cluster(a=[*own, *changed, GroupConfig("G", retry_queues=2), GroupConfig("H")], order={"TBW102": "a:1"})
    exported = members(found)
    assert (list(exported["topics"]), list(exported["groups"])) == (["%DLQ%I", "%RETRY%H"], ["G", "H"])
    assert exported["order_configs"] == {}
    exported = members(found, system=True)
    assert (len(exported["topics"]), len(exported["groups"])) == (11, 4)
    assert exported["order_configs"] == {"TBW102": "a:1"}


def test_a_topic_with_an_order_configuration_is_ordered_before_its_brokers_mark_it():
    made, marked = ([TopicConfig("T", 1, 1, order=order)] for order in (False, True))
    texts = {export_document(cluster(a=each, order={"T": "a:1"})).to_text() for each in (made, marked)}
    assert len(texts) == 1
    wanted = document(topics={"T": QUEUES}, order_configs={"T": "a:1"})
    for configs in (made, marked):
        assert changes(wanted, cluster(a=configs, order={"T": "a:1"})) == []
    assert [name for _, name, at in changes(wanted, cluster(a=made)) if at == [("a", False, ("order",))]] == ["T"]


# --- parsing --------------------------------------------------------------------------------------------------------


def test_a_document_may_be_written_by_hand():
    wanted = document(topics={"T": {"read_queues": 2, "write_queues": 2}}, groups={"G": {}})
    assert wanted.brokers == ()
    assert TOPIC.make("T", wanted.definitions[TOPIC]["T"].common) == TopicConfig("T", 2, 2)
    assert GROUP.make("G", wanted.definitions[GROUP]["G"].common) == GroupConfig("G")


QUEUES = {"read_queues": 1, "write_queues": 1}
TWO = {"brokers": ["a", "b"]}


@pytest.mark.parametrize(
    ("top", "says"),
    [
        ({"definitions_version": None}, "definitions_version is missing or null; expected 1"),
        ({"definitions_version": 2}, "definitions_version is 2; expected 1; a newer gantrymq reads it"),
        ({"definitions_version": True}, "definitions_version is true; expected 1"),
        ({"topic": {}}, "unknown member topic; did you mean topics?"),
        ({"zzz": {}}, "unknown member zzz; expected one of definitions_version, cluster, brokers"),
        ({"cluster": 1}, "cluster is 1; expected a text"),
        ({"brokers": []}, "brokers is []; expected a list of names of brokers, not empty"),
        ({"brokers": ["a", "a"]}, "brokers has a twice; expected once"),
        ({"topics": []}, "topics is []; expected an object"),
        ({"topics": {"T": 1}}, "topics, T is 1; expected an object"),
        ({"topics": {"a b": QUEUES}}, "topics: the topic name 'a b' has a character outside letters"),
        ({"groups": {"g" * 121: {}}}, "groups: the group name 'gggg"),
        ({"topics": {"T": {"read_queues": 1}}}, "topics, T: write_queues is missing; expected a whole number from 0"),
        ({"topics": {"T": {**QUEUES, "perm": "6"}}}, "topics, T: perm is '6'; expected a whole number from 0 to 7"),
        ({"topics": {"T": {**QUEUES, "perm": 8}}}, "topics, T: perm is 8; expected a whole number from 0 to 7"),
        ({"topics": {"T": {**QUEUES, "perm": None}}}, "topics, T: perm is missing or null; expected"),
        ({"topics": {"T": {**QUEUES, "order": 1}}}, "topics, T: order is 1; expected true or false"),
        ({"topics": {"T": {**QUEUES, "prem": 6}}}, "topics, T: unknown member prem; did you mean perm?"),
        ({"topics": {"T": {**QUEUES, "filter_type": "X"}}}, "filter_type is 'X'; expected SINGLE_TAG or MULTI_TAG"),
        ({"topics": {"T": {**QUEUES, "attributes": {"+a": "b"}}}}, "attributes is {'+a': 'b'}; expected an object"),
        ({"topics": {"T": {**QUEUES, "attributes": {"a": 1}}}}, "attributes is {'a': 1}; expected an object of texts"),
        ({"groups": {"G": {"retry_policy": []}}}, "groups, G: retry_policy is []; expected an object like RocketMQ's"),
        ({"groups": {"G": {"retry_policy": {"type": "X"}}}}, "retry_policy is {'type': 'X'}; expected an object like"),
        ({"groups": {"G": {"subscriptions": {}}}}, "subscriptions is {}; expected a list of objects"),
        ({"groups": {"G": {"subscriptions": [{"topic": []}]}}}, "expected a list of objects with topic"),
        (
            {"topics": {"T": {**QUEUES, "only_at": ["a"]}}},
            "T: only_at has a; expected one of brokers at the top",
        ),
        ({**TWO, "topics": {"T": {**QUEUES, "only_at": []}}}, "topics, T: only_at is []; expected a list"),
        (
            {**TWO, "groups": {"G": {"only_at": ["a"], "brokers": {"b": {}}}}},
            "groups, G, brokers: b is not in only_at; expected one of its brokers",
        ),
        ({**TWO, "groups": {"G": {"brokers": {"c": {}}}}}, "groups, G, brokers: c is not in brokers"),
        (
            {**TWO, "groups": {"G": {"brokers": {"b": {"retry_queues": 1.5}}}}},
            "groups, G, brokers, b: retry_queues is 1.5; expected a whole number",
        ),
        ({**TWO, "groups": {"G": {"brokers": {"b": {"only_at": ["a"]}}}}}, "brokers, b: unknown member only_at"),
        ({"order_configs": {"T": "a"}}, "order_configs, T is 'a'; expected a text such as broker-a:4;broker-b:8"),
        ({"order_configs": {"a b": "a:1"}}, "order_configs: the topic name 'a b'"),
    ],
)
def test_a_wrong_document_is_one_sentence(top, says):
    with pytest.raises(DefinitionsInvalid) as caught:
        document(**top)
    said = str(caught.value)
    assert says in said
    assert said.endswith("; nothing was changed")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1 is not JSON: Expecting value"),
        ('{\n"a": }', "line 2, column 6 is not JSON"),
        ("[]", "the document is []; expected an object"),
        ("null", "the document is missing or null; expected an object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"groups": {"G": {}, "G": {}}}', "G is there twice in one object; expected once"),
        ("[" * 100_000, "nested too deep"),
        (b"\xff\xfe\xff", "it is not JSON in UTF-8"),
        ('{"a": "\\ud800"}', "it is not JSON in UTF-8"),
        ('{"a": ' + "1" * 5000 + "}", "it is not JSON in UTF-8, or has a number of thousands of digits"),
    ],
)
def test_what_is_not_a_document_is_one_sentence(text, says):
    with pytest.raises(DefinitionsInvalid) as caught:
        parse(text, "d.json")
    assert says in str(caught.value)


# --- comparing ------------------------------------------------------------------------------------------------------


def test_a_cluster_does_not_differ_from_its_own_export():
    found = cluster(a=[TopicConfig("T", 8, 8), GroupConfig("G")], b=[TopicConfig("T", 4, 8)], order={"T": "a:8;b:4"})
    wanted = parse(export_document(found).to_text(), "d.json")
    difference = compare(wanted, found, sources_of(wanted, ("a", "b")))
    assert (difference.changes, difference.only_there, difference.unchanged) == ((), (), 3)


def test_changes_are_found_broker_by_broker_and_field_by_field():
    wanted = cluster(a=[TopicConfig("T", 8, 8, perm=4), GroupConfig("G")], b=[TopicConfig("T", 8, 8), GroupConfig("G")])
    found = cluster(a=[TopicConfig("T", 8, 8)], b=[GroupConfig("G", retry_queues=2), TopicConfig("Other", 1, 1)])
    found_difference = compare(export_document(wanted), found, {"a": "a", "b": "b"})
    assert changes(export_document(wanted), found) == [
        ("topic", "T", [("a", False, ("perm",)), ("b", True, ("read_queues", "write_queues"))]),
        ("group", "G", [("a", True, ()), ("b", False, ("retry_queues",))]),
    ]
    assert [(each.name, each.brokers) for each in found_difference.only_there] == [("Other", ("b",))]
    assert not any(each.adds for each in found_difference.changes)


def test_what_the_document_has_elsewhere_is_only_in_the_cluster():
    wanted = export_document(cluster(a=[TopicConfig("T", 1, 1)], b=[]))
    difference = compare(wanted, cluster(a=[TopicConfig("T", 1, 1)], b=[TopicConfig("T", 1, 1)]), {"a": "a", "b": "b"})
    assert (difference.changes, difference.unchanged) == ((), 1)
    assert [(each.name, each.brokers) for each in difference.only_there] == [("T", ("b",))]


def test_rocketmqs_own_definitions_are_not_compared():
    source = cluster(
        name="Old", x=[TopicConfig("Old", 16, 16), TopicConfig("TBW102", 8, 8), GroupConfig("TOOLS_CONSUMER")]
    )
    found = cluster(a=[TopicConfig("TBW102", 4, 4), TopicConfig("C", 1, 1)], order={"TBW102": "a:1"})
    difference = compare(export_document(source, system=True), found, {"a": "x"})
    assert (difference.changes, difference.only_there, difference.own) == ((), (), 3)


def test_brokers_are_mapped_and_order_configurations_with_them():
    source = cluster(a=[TopicConfig("T", 8, 8)], b=[TopicConfig("T", 4, 4)], order={"T": "a:8;b:4;gone:1"})
    wanted = export_document(source)
    assert sources_of(wanted, ("a", "b", "c")) == {"a": "a", "b": "b"}
    assert sources_of(wanted, ("x", "y"), [("a", "x"), ("b", "y")]) == {"x": "a", "y": "b"}
    found = cluster(x=[], y=[], z=[])
    queues = ("read_queues", "write_queues", "order")
    assert changes(wanted, found, ("a", "x"), ("a", "y"), ("b", "")) == [
        ("topic", "T", [("x", True, queues), ("y", True, queues)]),
        (ORDER_CONFIG, "T", [("", True, ("queues",))]),
    ]
    difference = compare(wanted, found, {"x": "a", "y": "a"})
    assert difference.changes[1].at[0].after == {"queues": "x:8;y:8;gone:1"}
    assert difference.not_compared == ("z",)


@pytest.mark.parametrize(
    ("moves", "says"),
    [
        ([], "the cluster has no broker a, only x, y; --map a=NAME applies"),
        ([("a", "x")], "the cluster has no broker b, only x, y"),
        ([("c", "x")], "broker c to be mapped is not in the document, which has a, b"),
        ([("a", "x"), ("b", "x")], "broker x would get the definitions of a and of b"),
        ([("a", "nowhere"), ("b", "")], "the cluster has no broker nowhere"),
    ],
)
def test_brokers_that_do_not_fit_are_one_sentence(moves, says):
    with pytest.raises(DefinitionsInvalid, match=re.escape(says)):
        sources_of(export_document(cluster(a=[], b=[])), ("x", "y"), moves)


def test_a_document_without_brokers_is_for_all():
    wanted = document(topics={"T": QUEUES}, order_configs={"T": "a:1"})
    assert sources_of(wanted, ("a", "b")) == {"a": None, "b": None}
    topic, order = changes(wanted, cluster(a=[], b=[TopicConfig("T", 1, 1)]))
    assert topic == ("topic", "T", [("a", True, ("read_queues", "write_queues", "order")), ("b", False, ("order",))])
    assert order == (ORDER_CONFIG, "T", [("", True, ("queues",))])
    with pytest.raises(DefinitionsInvalid, match="the document names no brokers"):
        sources_of(wanted, ("a",), [("a", "a")])


topics = st.builds(
    TopicConfig,
    st.sampled_from(["T", "U", "%RETRY%G"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 7),
    order=st.booleans(),
    attributes=st.dictionaries(st.sampled_from(["a", "b"]), st.text("xy=", max_size=2)),
)
policies = st.sampled_from(
    [{"type": "CUSTOMIZED"}, {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"max": 2}}, {"next": [3, 1]}]
)
groups = st.builds(
    GroupConfig,
    st.sampled_from(["G", "H"]),
    consume_enable=st.booleans(),
    retry_queues=st.integers(-1, 2),
    retry_policy=policies,
    subscriptions=st.none() | st.lists(st.fixed_dictionaries({"topic": st.sampled_from("ab")}), max_size=2),
    attributes=st.dictionaries(st.sampled_from(["filter"]), st.text("xy,", max_size=2)),
)
clusters = st.fixed_dictionaries(dict.fromkeys("abc", st.lists(topics | groups, max_size=4)))


@settings(max_examples=150, deadline=None)
@given(clusters)
def test_any_cluster_survives_a_document(configs):
    found = cluster(**configs)
    exported = export_document(found)
    read = parse(exported.to_text(), "d.json")
    assert read == exported
    assert read.to_text() == exported.to_text()
    sources = dict.fromkeys("abc")
    sources = {broker: broker for broker in sources}
    assert compare(read, found, sources).changes == ()
    assert compare(read, found, sources).only_there == ()
    empty = cluster(a=[], b=[], c=[])
    made = compare(read, empty, sources)
    assert sum(each.count(kind) for each in [read] for kind in KINDS) == len(made.changes)


def test_the_page_lists_every_member():
    text = PAGE.read_text(encoding="utf-8")
    for kind in KINDS:
        heading = f"### Members of a {kind.word}"
        table = text.partition(heading)[2].partition("\n#")[0]
        rows = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]*?)`? \|", table, re.MULTILINE))
        assert rows == {
            each.name: "required" if each.required else json.dumps(each.default).strip('"') for each in kind.fields
        }
