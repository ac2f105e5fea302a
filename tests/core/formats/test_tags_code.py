import pytest

from gantrymq.errors import ConfigError
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, deliver_time, parse_delay_levels, tags_code, tags_code_of

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
NOW = 1700000000123


@pytest.mark.parametrize(("tag", "code"), [(None, 0), ("", 0), ("TagA", 2598919), ("order-1", -1207111310)])
def test_a_code_is_javas_hash(tag, code):
    assert tags_code(tag) == code
    assert tags_code_of("T", {"TAGS": tag} if tag else {}, NOW, LEVELS) == code


def test_the_default_levels():
    assert (len(LEVELS), LEVELS[0], LEVELS[4], LEVELS[17]) == (18, 1000, 60_000, 7_200_000)
    assert parse_delay_levels("2d") == (172_800_000,)


@pytest.mark.parametrize(("level", "due"), [("3", 1700000010123), ("18", NOW + 7_200_000), ("99", NOW + 7_200_000)])
def test_a_delayed_message_has_its_deliver_time(level, due):
    assert tags_code_of("SCHEDULE_TOPIC_XXXX", {"DELAY": level, "TAGS": "TagA"}, NOW, LEVELS) == due


@pytest.mark.parametrize(
    "properties", [{"TAGS": "TagA"}, {"DELAY": "0", "TAGS": "TagA"}, {"DELAY": "x", "TAGS": "TagA"}]
)
def test_without_a_level_the_tag_counts(properties):
    assert tags_code_of("SCHEDULE_TOPIC_XXXX", properties, NOW, LEVELS) == 2598919
    assert tags_code_of("T", {"DELAY": "3", "TAGS": "TagA"}, NOW, LEVELS) == 2598919


def test_a_level_without_a_duration_counts_a_second():
    assert deliver_time(0, NOW, ()) == NOW + 1000


@pytest.mark.parametrize("text", ["", "1", "s", "1.5s", "-1s", "1w"])
def test_a_table_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(text)
