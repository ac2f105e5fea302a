"""Tag expressions, cut and split as Java does."""

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_filter_tag.filter import parse_tags


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_and_the_star_mean_everything(expression):
    assert parse_tags(expression) is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", ("TagA",)),
        ("TagA||TagB", ("TagA", "TagB")),
        ("  TagA ||\tTagB\n", ("TagA", "TagB")),
        ("||TagA", ("TagA",)),
        ("TagA||", ("TagA",)),
        ("TagA|| ||TagB", ("TagA", "TagB")),
        ("TagA || TagA", ("TagA",)),
        ("TagA|TagB", ("TagA|TagB",)),
        ("|", ("|",)),
        ("|||", ("|",)),
        (" * ", ("*",)),
        ("TagA || *", ("TagA", "*")),
        ("\u3000TagA", ("\u3000TagA",)),
        (" ", ()),
        (" || ", ()),
    ],
)
def test_tags_stand_between_two_pipes(expression, tags):
    assert parse_tags(expression) == tags


def test_a_long_expression_is_refused():
    assert parse_tags("a" * 65_536) == ("a" * 65_536,)
    with pytest.raises(SubscriptionParseFailed, match="has 65537 characters, the longest allowed has 65536") as refused:
        parse_tags("a" * 65_537)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression):
    with pytest.raises(SubscriptionParseFailed, match="no tag between them"):
        parse_tags(expression)
