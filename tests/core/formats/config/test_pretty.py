import pytest

from gantrymq.formats.config import pretty
from gantrymq.formats.config.manager_file import FormattedText, pretty_member
from gantrymq.loose_json import loads

SAMPLE = """{
\t"dataVersion":{
\t\t"counter":2,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000123
\t},
\t"offsetTable":{
\t\t"TopicTest@CID_abc":{0:250,1:250
\t\t}
\t}
}"""


def test_a_sample_of_java_comes_out_as_it_was():
    assert pretty(loads(SAMPLE)) == SAMPLE


def test_empty_containers_and_lists_stay_on_their_line():
    assert pretty({"a": {}, "b": [], "c": ["x", "y"], "d": [1, 2]}) == (
        '{\n\t"a":{},\n\t"b":[],\n\t"c":["x","y"],\n\t"d":[1,2]\n}'
    )


def test_an_object_in_a_list_is_indented_like_its_list():
    assert pretty({"a": [{"b": 1}, {"c": 2}]}) == '{\n\t"a":[{\n\t\t"b":1\n\t},{\n\t\t"c":2\n\t}]\n}'


def test_none_members_are_left_out():
    assert pretty({"a": None}) == "{}"
    assert pretty({"a": None, "b": True}) == '{\n\t"b":true\n}'


def test_text_beyond_ascii_stays_raw_and_control_characters_are_escaped():
    assert pretty({"grün\t": "\U0001f600\n"}) == '{\n\t"grün\\t":"\U0001f600\\n"\n}'


def test_integer_keys_can_have_a_line_each_as_in_5_5_0():
    assert pretty({"t@g": {0: 30, 1: 31}}, integer_lines=True) == '{\n\t"t@g":{\n\t\t0:30,\n\t\t1:31\n\t}\n}'


def test_what_is_laid_out_already_is_written_as_it_is():
    member = pretty_member("b", {"c": [1], "d": {0: 1}}, level=2)
    assert pretty({"a": FormattedText("{" + member + "\n\t}")}) == pretty({"a": {"b": {"c": [1], "d": {0: 1}}}})


def test_a_key_that_is_no_text_or_number_is_a_type_error():
    with pytest.raises(TypeError, match="tuple"):
        pretty({(1, 2): 3})
