import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.errors import FormatError
from gantrymq.loose_json import (
    MAX_DEPTH,
    ObjectKey,
    ReadBudget,
    dumps,
    dumps_ascii,
    dumps_plain,
    dumps_standard,
    int_keys,
    loads,
    loads_strict,
    object_key,
    reader,
)
from gantrymq.loose_json.reader import _Reader

QUEUE = {"brokerName": "b", "queueId": 0, "topic": "T"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,-2.5,true,null,"x"]}', {"a": [1, -2.5, True, None, "x"]}),
        ("{0:1,-3:2}", {0: 1, -3: 2}),
        ('{"0":1}', {"0": 1}),
        ('{"a{1:2}":{0:5,\n\t-1 : -6\n}, 3:{4:{5:6},7:{}}}', {"a{1:2}": {0: 5, -1: -6}, 3: {4: {5: 6}, 7: {}}}),
        ("{007:1,-0:02}", {7: 1, 0: 2}),
        ("{1:2,1:3}", {1: 3}),
        (f"{{1:{10**30},{-(10**30)}:2}}", {1: 10**30, -(10**30): 2}),
        ('{"a,1:":{ 7 :[{-8:"{9:"}]},2:3}', {"a,1:": {7: [{-8: "{9:"}]}, 2: 3}),
        ('{1:"\ue0001",2:"a\\"{3:"}', {1: "\ue0001", 2: 'a"{3:'}),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:20}', {ObjectKey(QUEUE): 20}),
        ('{"{\\"queueId\\":0}":20}', {'{"queueId":0}': 20}),
        ("{'a':'it\\'s'}", {"a": "it's"}),
        ("{'a':'say \"hi\"'}", {"a": 'say "hi"'}),
        ("{code:310,$x:1}", {"code": 310, "$x": 1}),
        ("[1,,2,]", [1, 2]),
        ("{,1:2,,}", {1: 2}),
        ("[12L,1.5D,.5]", [12, 1.5, 0.5]),
        (' \r\n\t{ 1 : [ ] , "b" : { } } \n', {1: [], "b": {}}),
        ('{1:"\\u4e2d\\ud83d\\ude00\\x41\\/\\n"}', {1: "中\U0001f600A/\n"}),
        ('{1:"raw \x01\x02"}', {1: "raw \x01\x02"}),
        ('"half \\ud83d"', "half ?"),
        ("{a:undefined,b:NaN}", {"a": None, "b": None}),
        ("9223372036854775807", 9223372036854775807),
    ],
)
def test_reads_both_dialects(text, value):
    assert loads(text) == value
    assert loads(text.encode()) == value
    assert loads(memoryview(text.encode())) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at 0"),
        ('{"a":1} x', "trailing text at 8"),
        ("{0:1}}", "trailing text at 5"),
        ('{"a"', "at 4: expected :"),
        ('{"a":', "at 5: expected a value"),
        ('{"a":1', "at 6: expected , or }"),
        ("[1,2:3]", "at 4: expected , or ]"),
        ('{1:2,"a}', "closing"),
        ("[1 2]", "at 3: expected , or ]"),
        ("{[1]:2}", "at 1: expected a key"),
        ("'abc", "closing '"),
        ('"\\u12"', "at 1: expected an escape"),
        ("[wrong]", "at 1: expected a value"),
        ("[" * (MAX_DEPTH + 1), f"deeper than {MAX_DEPTH}"),
        ("{{" * 300, "deeper"),
        ("[" + "9" * 500 + ",{0:1}]", "500 digits"),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_refuses_with_the_position(text, words, raw):
    if raw and "digits" in words:
        assert loads(text, raw_numbers=True)[0] == "9" * 500
        return
    with pytest.raises(FormatError, match=words.replace("|", r"\|")):
        loads(text, raw_numbers=raw)


def test_refuses_what_is_not_utf8():
    with pytest.raises(FormatError, match="byte 2"):
        loads(b'{"\xff":1}')


@pytest.mark.parametrize("text", ["[0, 1.50, 1e3, -7, 12345678901234567890]", "[0,,1.50,1e3,-7,12345678901234567890]"])
def test_numbers_can_keep_their_text(text):
    assert loads(text, raw_numbers=True) == ["0", "1.50", "1e3", "-7", "12345678901234567890"]


def test_deep_strict_text_is_refused_in_raw_mode_rather_than_overflowing():
    with pytest.raises(FormatError):
        loads("[" * 100_000 + "]" * 100_000, raw_numbers=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[{"x":1}],"b":{"$ref":"$.a[0]"}}', {"a": [{"x": 1}], "b": {"x": 1}}),
        ('{"a":{0:{"x":1}},"b":{"$ref":"$.a[0]"}}', {"a": {0: {"x": 1}}, "b": {"x": 1}}),
        ('{"a.b":[5],"c":{"$ref":"$.a\\\\.b"}}', {"a.b": [5], "c": [5]}),
        ('{"a b":1,"c":{"$ref":"$[\'a b\']"}}', {"a b": 1, "c": 1}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.c"},"c":[1]}', {"a": [1], "b": [1], "c": [1]}),
        ('{"a":{"$ref":1}}', {"a": {"$ref": 1}}),
    ],
)
def test_references_become_copies(text, value):
    read = loads(text)
    assert read == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":{"$ref":"$"}}', "contains itself"),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', "contains itself"),
        ('{"a":{"$ref":"$.b"}}', "has no target"),
        ('{"a":[],"b":{"$ref":"$.a[3]"}}', "has no target"),
        ('{"a":{"$ref":".."}}', "unsupported form"),
        ('{"a":{"$ref":"$.a["}}', "unsupported form"),
    ],
)
def test_references_that_cannot_be_followed(text, words):
    with pytest.raises(FormatError, match=words):
        loads(text)


def test_references_cannot_multiply_without_bound():
    rows = ['"l0":[1]']
    for level in range(1, 9):
        rows.append(f'"l{level}":[{",".join([json.dumps({"$ref": f"$.l{level - 1}"})] * 10)}]')
    with pytest.raises(FormatError, match="expand"):
        loads("{" + ",".join(rows) + "}")


def test_object_keys_are_equal_whatever_their_order():
    one, other = ObjectKey(QUEUE), ObjectKey(reversed(QUEUE.items()))
    assert one == other
    assert hash(one) == hash(other)
    assert one != QUEUE
    assert dict(one) == QUEUE
    assert one["queueId"] == 0
    assert ObjectKey({"a": [1, {"b": 2}]}) == ObjectKey({"a": (1, {"b": 2})})
    assert len({one, other}) == 1
    assert repr(one).startswith("ObjectKey({'brokerName'")


def test_tables_come_in_two_spellings():
    assert int_keys(loads('{0:"a"}')) == int_keys(loads('{"0":"a"}')) == {0: "a"}
    assert object_key('{"queueId":0}') == object_key({"queueId": 0}) == object_key(ObjectKey({"queueId": 0}))
    with pytest.raises(FormatError, match="integer keys"):
        int_keys({"x": 1})
    with pytest.raises(FormatError, match="object as key"):
        object_key("[1]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": None, "c": []}, '{"b":1,"c":[]}'),
        ({0: "x", ObjectKey(QUEUE): 20}, '{0:"x",{"brokerName":"b","queueId":0,"topic":"T"}:20}'),
        ([None, True, False, (), {}, {7}], "[null,true,false,[],{},[7]]"),
        (
            '\x00\x01\x0b\x1f\x7f\x9f\u2028/é\U0001f600"\\\b\f\n\r\t',
            '"\\u0000\\u0001\\u000B\\u001F\\u007F\\u009F\\u2028/é\U0001f600\\"\\\\\\b\\f\\n\\r\\t"',
        ),
        (
            [0.0, -0.0, 1.0, 0.001, 9999999.0, 1e7, 1.25e-4, -1.5e300],
            "[0.0,-0.0,1.0,0.001,9999999.0,1.0E7,1.25E-4,-1.5E300]",
        ),
        ([float("nan"), float("inf"), float("-inf")], "[null,null,null]"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_writes_as_fastjson_does(value, text):
    assert dumps(value) == text.encode()


def test_members_can_be_sorted_and_nulls_kept():
    assert dumps({"b": {"d": 1, "c": None}, "a": 0}, sort=True, keep_nulls=True) == b'{"a":0,"b":{"c":null,"d":1}}'


def test_the_standard_form_is_strict_sorted_ascii():
    value = {"t": {10: "h:1", 2: "a/b"}, "a": "é\U0001f600", "n": None, "big": 2**60, ObjectKey({"q": 1}): 3}
    assert dumps_standard(value) == (
        b'{"a":"\\u00E9\\uD83D\\uDE00","big":"1152921504606846976","t":{"2":"a\\/b","10":"h:1"},"{\\"q\\":1}":3}'
    )


def test_what_has_no_json_form_is_refused():
    with pytest.raises(TypeError, match="object has no JSON form"):
        dumps([object()])
    with pytest.raises(TypeError, match="cannot be a JSON key"):
        dumps({1.5: 1})
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(FormatError, match="too deep"):
        dumps(deep)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{0:1,"1":2},"b":{"$ref":"$.a"}}', {"a": {0: 1, "1": 2}, "b": {"$ref": "$.a"}}),
        ('{ 0 : [ ] , -7 : [ {1:"x\\n"} , null, true ] }', {0: [], -7: [{1: "x\n"}, None, True]}),
        ('{{"a":"b"}:[1.5,{2:3}],"c":"\\u00e9"}', {ObjectKey({"a": "b"}): [1.5, {2: 3}], "c": "é"}),
    ],
)
def test_strict_reading_takes_integers_and_objects_as_keys(text, value):
    assert loads_strict(text, ReadBudget()) == value
    assert loads_strict(text.encode(), ReadBudget()) == value


@pytest.mark.parametrize(
    "text",
    [
        "{0:'a'}",
        "{'a':{0:1}}",
        "{a:{0:1}}",
        "{0:[1,,2]}",
        "{0:[1,2,]}",
        "{0:[,1]}",
        "{0:1,,1:[2]}",
        "{,0:[1]}",
        "{0:[1],}",
        "{0:[1] 1:[2]}",
        "{0:12L}",
        "{0:undefined}",
        "{0:NaN}",
        "{0:.5}",
        "{1.5:[0]}",
        "{true:[0]}",
        '{0:"\\x41"}',
        '{0:["\\ud83d"]}',
        '{0:"a}',
        "{0:",
        "{0:[1]} 1",
        "[" * 200_000,
    ],
)
def test_strict_reading_takes_no_other_looseness(text):
    with pytest.raises(FormatError, match="JSON"):
        loads_strict(text, ReadBudget())


def test_strict_reading_refuses_what_is_not_utf8():
    with pytest.raises(FormatError, match="UTF-8"):
        loads_strict(b"\xff", ReadBudget())


def test_values_that_are_read_one_by_one_are_limited(monkeypatch):
    monkeypatch.setattr(reader.ReadBudget.__init__, "__defaults__", (10,))
    for text in ("{0:[" + "[[]]," * 5 + "[]]}", "['" + "\\n" * 10 + "']"):
        with pytest.raises(FormatError, match="too many values"):
            loads(text)
    assert loads("['" + "\\n" * 8 + "']") == ["\n" * 8]
    assert loads("{0:{" + ",".join(f'"{n}":{n}' for n in range(1000)) + "}}")[0]["999"] == 999
    assert loads("{0:{" + ",".join(f"{n}:{n}" for n in range(1000)) + "}}")[0][999] == 999
    assert loads("[" + "[[]]," * 50 + "[]]")[50] == []
    budget = ReadBudget()
    with pytest.raises(FormatError, match="too many values"):
        for _ in range(4):
            loads_strict("{0:[[1],2]}", budget)


_STRINGS = st.text(alphabet='ab"\\{}[]:, 1\n\u00e9\U0001f600', max_size=8)
_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_FLAT = st.dictionaries(_STRINGS, _STRINGS | _INTEGERS | st.booleans(), min_size=1, max_size=3)
_TABLES = st.recursive(
    _STRINGS | _INTEGERS | st.booleans(),
    lambda value: (
        st.lists(value, max_size=3) | st.dictionaries(_STRINGS | _INTEGERS | _FLAT.map(ObjectKey), value, max_size=3)
    ),
    max_leaves=12,
)


def slowly(text):
    """Read *text* value by value."""
    return _Reader(text, ReadBudget(), flat=False).document()


@settings(max_examples=60)
@given(_TABLES)
def test_tables_with_objects_and_integers_as_keys_are_read_as_they_were_written(value):
    text = dumps(value).decode()
    assert loads(text) == value
    assert slowly(text) == value
    assert loads_strict(text, ReadBudget()) == value


@settings(max_examples=300)
@given(st.text(alphabet="{}[]:,\"'1a\\ ", max_size=30))
def test_flat_objects_and_lists_are_read_as_value_by_value(text):
    def outcome(read):
        try:
            return read(text)
        except FormatError:
            return "refused"

    if "1" * 19 in text:
        return  # orjson reads longer integers as floats
    assert outcome(lambda text: _Reader(text, ReadBudget()).document()) == outcome(slowly)
    strict = outcome(lambda text: loads_strict(text, ReadBudget()))
    assert strict in ("refused", outcome(slowly))


def test_a_table_of_the_size_of_a_frame_is_read():
    row = '{{"brokerName":"b","queueId":{},"topic":"T"}}:{{"brokerOffset":1,"consumerOffset":1,"pullOffset":0}}'
    text = f'{{"offsetTable":{{{",".join(row.format(n) for n in range(150_000))}}}}}'
    assert len(text) > 14 * 1024 * 1024
    table = loads(text)["offsetTable"]
    assert len(table) == 150_000
    assert table[ObjectKey({"topic": "T", "queueId": 149_999, "brokerName": "b"})]["consumerOffset"] == 1


@pytest.mark.parametrize("text", ["{1:2:3,4}", "{1,2:3:4}", "{1}", "{1:2,3}", "{1-2:3}", "{1:}", "{-:1}", "{1 2:3}"])
def test_integers_that_are_no_pairs_are_refused(text):
    with pytest.raises(FormatError, match="JSON at"):
        loads(text)


@pytest.mark.parametrize("value", [{"a": [1, True, "grün", 2.5], "b": {}}, {"long": 10**30}])
def test_plain_tables_are_written_as_dumps_writes_them(value):
    assert dumps_plain(value) == dumps(value)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)))) | st.just(["10.0.0.1@7"]) | st.just(["\x7f\u2028"]))
def test_lists_of_texts_are_written_as_dumps_writes_them(texts):
    assert dumps_ascii({"consumerIdList": texts, "size": 10**30}) == dumps({"consumerIdList": texts, "size": 10**30})
    assert dumps_ascii({"consumerIdList": texts}) == dumps({"consumerIdList": texts})


@pytest.mark.parametrize(
    "text",
    [
        b'["$ref",' + b"[" * 1000 + b"]" * 1000 + b"]",
        b'{"a":"$ref","b":' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}",
        b'[{"$ref":"$[1]"},' + b"[" * 1020 + b"]" * 1020 + b"]",
    ],
)
def test_what_is_nested_too_deep_for_references_is_a_format_error(text):
    with pytest.raises(FormatError, match="nested too deep"):
        loads(text)
