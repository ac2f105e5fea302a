"""One setting, and the values in force."""

import pytest

from gantrymq.config import Setting, Settings, free_port_keys
from gantrymq.errors import ConfigError

SIZE = Setting("size", "number", 10, "Size.", at_least=1, at_most=99)
ON = Setting("on", "flag", False, "On.", not_built=lambda value: "is not built" if value else None)
MODE = Setting("mode", "text", "a", "Mode.", choices=("a", "b"))
NAME = Setting("name", "text", "", "Name.")


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [(SIZE, " 12 ", 12), (ON, "FALSE", False), (MODE, "b", "b"), (NAME, " x y ", "x y")],
)
def test_a_text_becomes_a_value(setting, text, value):
    assert setting.parse(text, "here") == value


@pytest.mark.parametrize(
    ("setting", "text", "sentence"),
    [
        (SIZE, "1.5", "here: size=1.5 is not a whole number"),
        (SIZE, "0", "here: size=0 is below the smallest allowed value 1"),
        (SIZE, "100", "here: size=100 is above the largest allowed value 99"),
        (ON, "1", "here: on=1 is neither true nor false"),
        (ON, "true", "here: on=true: is not built"),
        (MODE, "c", "here: mode=c is not one of a, b"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(setting, text, sentence):
    with pytest.raises(ConfigError) as caught:
        setting.parse(text, "here")
    assert str(caught.value) == sentence


def test_values_are_read_by_kind():
    settings = Settings([SIZE, ON, NAME], {"size": 5, "name": "n"})
    assert (settings.number("size"), settings.flag("on"), settings.text("name")) == (5, False, "n")


def test_each_value_knows_where_it_came_from():
    settings = Settings([SIZE, ON])
    settings.set("size", "7", "--set size")
    assert (settings.source("size"), settings.source("on")) == ("--set size", "default")


def test_a_key_that_nobody_declared_is_a_bug():
    with pytest.raises(KeyError):
        Settings([SIZE]).number("sice")
    with pytest.raises(KeyError):
        Settings([SIZE]).set("sice", "1", "here")


def test_a_value_given_in_code_is_checked_too():
    with pytest.raises(ConfigError, match="given in code: size=0"):
        Settings([SIZE], {"size": 0})


def test_all_values_are_listed_by_key():
    assert list(Settings([SIZE, ON, MODE]).as_dict().items()) == [("mode", "a"), ("on", False), ("size", 10)]


LEGACY = Setting("legacy", "flag", False, "Legacy.", selects=("mode", "b"))


def test_a_flag_selects_the_value_of_another_key():
    settings = Settings([MODE, LEGACY], {"legacy": True})
    assert (settings.text("mode"), settings.source("mode")) == ("b", "legacy=true")
    assert Settings([MODE, LEGACY], {"legacy": False}).text("mode") == "a"


def test_a_flag_may_select_what_is_set_already():
    settings = Settings([MODE, LEGACY], {"legacy": True, "mode": "b"})
    assert (settings.text("mode"), settings.source("mode")) == ("b", "given in code")


def test_two_flags_that_select_different_values_are_refused():
    other = Setting("other", "flag", False, "Other.", selects=("name", "second"))
    first = Setting("first", "flag", False, "First.", selects=("name", "first"))
    with pytest.raises(ConfigError) as caught:
        Settings([NAME, first, other], {"first": True, "other": True})
    assert str(caught.value) == (
        "given in code: other=true selects name=second, and first=true has name=first; keep one of the two"
    )


def test_only_ports_that_may_be_0_can_be_free_ones():
    schema = [
        Setting("webPort", "number", 80, "", at_least=0),
        Setting("fixedPort", "number", 80, "", at_least=1),
        Setting("maxPorts", "number", 0, "", at_least=0),
        Setting("namePort", "text", "", ""),
    ]
    assert free_port_keys(schema) == ["webPort"]
