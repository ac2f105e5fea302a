"""Sentences from texts and values."""

import pytest

from gantrymq.model.texts import form_of, sentence_of

FORMS = {"none": "no messages", "one": "{count} message", "other": "{count} messages"}


@pytest.mark.parametrize(("count", "sentence"), [(0, "no messages"), (1, "1 message"), (2, "2 messages")])
def test_the_count_selects_a_form(count, sentence):
    assert sentence_of(FORMS, {"count": count}) == sentence


def test_a_missing_form_is_the_other_one():
    assert [form_of({"other": "x"}, count) for count in (0, 1, 2, None, "1")] == ["x"] * 5
    assert form_of("one text", 7) == "one text"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (119_999, "120 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (None, "an unknown time"),
    ],
)
def test_values_ending_in_ms_are_durations(ms, shown):
    assert sentence_of("{ago_ms} ago", {"ago_ms": ms}) == f"{shown} ago"


def test_an_unknown_value_is_called_so_and_a_missing_one_is_an_error():
    assert sentence_of("at {offset}", {"offset": None}) == "at unknown"
    with pytest.raises(KeyError):
        sentence_of("at {offset}", {})
