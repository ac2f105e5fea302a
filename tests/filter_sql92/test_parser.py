"""The tree that a text is parsed to."""

import pytest
from hypothesis import given
from trees import anything, conditions

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_filter_sql92.explain import format_expression
from gantrymq_filter_sql92.expression import parse
from gantrymq_filter_sql92.nodes import (
    And,
    Between,
    Boolean,
    Comparison,
    Double,
    ExpressionRefused,
    In,
    Integer,
    IsNull,
    Negative,
    Not,
    Or,
    Present,
    Property,
    Text,
    TextMatch,
    property_names,
)

A, B, C = map(Property, "abc")
HAS_A, HAS_B, HAS_C = map(Present, (A, B, C))
ONE, TWO = Integer(1), Integer(2)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", HAS_A),
        ("NULL", Boolean(None)),
        ("a OR b AND c", Or((HAS_A, And((HAS_B, HAS_C))))),
        ("(a OR b) AND c", And((Or((HAS_A, HAS_B)), HAS_C))),
        ("a AND b AND c", And((HAS_A, HAS_B, HAS_C))),
        ("(a AND b) AND c", And((And((HAS_A, HAS_B)), HAS_C))),
        ("a = b <> c", Comparison(Comparison(A, "=", B), "<>", C)),
        ("a = b > 1", Comparison(A, "=", Comparison(B, ">", ONE))),
        ("NOT a = 1", Comparison(Not(HAS_A), "=", ONE)),
        ("NOT NOT a", Not(Not(HAS_A))),
        ("a IS NULL IS NOT NULL", IsNull(IsNull(A), True)),
        ("NULL IS NULL", IsNull(Boolean(None))),
        ("a BETWEEN 1 AND 2 AND b", And((Between(A, ONE, TWO), HAS_B))),
        ("a NOT BETWEEN 2 AND 1", Between(A, TWO, ONE, True)),
        ("a BETWEEN -1 AND -2", Between(A, Negative(ONE), Negative(TWO))),
        ("(a) IN ('x', '')", In(A, ("x", ""))),
        ("a NOT IN ('x')", In(A, ("x",), True)),
        ("a CONTAINS 'x' NOT CONTAINS 'y'", TextMatch(TextMatch(A, "CONTAINS", "x"), "CONTAINS", "y", True)),
        ("5 startsWith 'x'", TextMatch(Integer(5), "STARTSWITH", "x")),
        ("'x' NOT ENDSWITH 'y'", TextMatch(Text("x"), "ENDSWITH", "y", True)),
        ("a = TRUE", Comparison(A, "=", Boolean(True))),
        ("5 = false", Comparison(Integer(5), "=", Boolean(False))),
        ("+a", HAS_A),
        ("+ +1 < -a", Comparison(ONE, "<", Negative(A))),
    ],
)
def test_operators_bind_as_in_rocketmq(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text", ["a iS nOt NuLl", "a IS\tNOT\r\n\fNULL", "/* * / */a-- IS\nIS/**/NOT NULL", "a is not null"]
)
def test_letter_case_blanks_and_comments_change_nothing(text):
    assert parse(text) == IsNull(A, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Integer(0)),
        ("0L", Integer(0)),
        ("007", Integer(0)),
        ("12abc", Integer(12)),
        ("5l", Integer(5)),
        ("9223372036854775807", Integer(2**63 - 1)),
        ("007.", Double(7.0)),
        ("1.5.5", Double(1.5)),
        (".5e1", Double(5.0)),
        ("1e-3", Double(0.001)),
        ("5E10L", Double(5e10)),
        ("1e", Integer(1)),
        ("5e-324", Double(5e-324)),
        ("1.7976931348623157e308", Double(1.7976931348623157e308)),
        ("'it''s'", Text("it's")),
        ("''", Text("")),
        ("''''", Text("'")),
        ("'-- /* é\n'", Text("-- /* é\n")),
        ("$a_1", Property("$a_1")),
        ("nulla", Property("nulla")),
        ("--5", Negative(Negative(Integer(5)))),
    ],
)
def test_literals(text, value):
    assert parse("a = " + text) == Comparison(A, "=", value)


@pytest.mark.parametrize(
    "rest",
    [
        " garbage",
        " b > ;",
        " 5",
        ") OR b",
        " LIKE 'x'",
        ", 'x'",
        " TRUE",
        " -1",
        " - b = 1",
        " + 1",
        " (b)",
        " -- no end",
        "--",
    ],
)
def test_the_rest_behind_a_whole_condition_is_not_looked_at(rest):
    assert parse("a" + rest) == HAS_A


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        (
            "",
            0,
            "found the end, expected a property, a text in single quotes, a number, (, a sign, FALSE, NOT, NULL or",
        ),
        ("*", 0, "'*' is only allowed in texts and comments"),
        ("a > ", 4, "found the end, expected a property, a text"),
        ("a >= = 1", 5, "found '=', expected"),
        ("a ;", 2, "';' is only allowed in texts and comments"),
        ("a != 1", 2, "'!' is only allowed in texts and comments; write <> for not equal"),
        ('a = "x"', 4, "write texts in single quotes"),
        ("a = 'x", 4, "not closed by a single quote"),
        ("a = 'x''y", 7, "not closed by a single quote"),
        ("a /* b", 2, "not closed by */"),
        ("a\u00a0= 1", 1, "is only allowed in texts and comments"),
        ("a\x0b= 1", 1, "is only allowed in texts and comments"),
        ("é = 1", 0, "is only allowed in texts and comments"),
        ("(a", 2, "found the end, expected"),
        ("(a b)", 3, "found 'b', expected"),
        ("a not 5", 6, "found '5', expected BETWEEN, CONTAINS, ENDSWITH, IN or STARTSWITH"),
        ("a IS b", 5, "found 'b', expected NOT or NULL"),
        ("a IS NOT b", 9, "found 'b', expected NULL"),
        ("a IN ()", 6, "found ')', expected a text in single quotes"),
        ("a IN (1)", 6, "found '1', expected a text in single quotes"),
        ("a IN ('x' 'y')", 10, "expected ) or a comma"),
        ("a CONTAINS b", 11, "found 'b', expected a text in single quotes"),
        ("a BETWEEN 1 OR 2", 12, "found 'OR', expected AND"),
        ("a = NULL", 4, "= cannot compare with NULL; write IS NULL or IS NOT NULL"),
        ("NULL <> a", 0, "<> cannot compare with NULL"),
        ("TRUE = 5", 0, "TRUE or FALSE on the left of = cannot be compared"),
        ("FALSE = 'x'", 0, "TRUE or FALSE on the left of = cannot be compared"),
        ("a > 'x'", 4, "cannot compare a text; it compares properties and numbers"),
        ("a < TRUE", 4, "cannot compare a condition, TRUE, FALSE or NULL; it compares properties and numbers"),
        ("NULL > 1", 0, "cannot compare a condition, TRUE, FALSE or NULL; it compares properties and numbers"),
        ("a > 1 > 2", 0, "cannot compare a condition, TRUE, FALSE or NULL; it compares properties and numbers"),
        ("NOT a > 1", 0, "cannot compare a condition, TRUE, FALSE or NULL; it compares properties and numbers"),
        ("a BETWEEN 2 AND 1", 10, "BETWEEN starts at 2, above its end 1"),
        ("a BETWEEN 1.5 AND 1", 10, "BETWEEN starts at 1.5, above its end 1"),
        ("a BETWEEN 'a' AND 'b'", 10, "cannot compare a text; it compares properties and numbers"),
        ("a NOT BETWEEN 1 AND 'b'", 20, "cannot compare a text; it compares properties and numbers"),
        ("'a' IN ('a')", 0, "the left side of IN must be a property"),
        ("-a IN ('a')", 0, "the left side of IN must be a property"),
        ("a IN ('a') IN ('b')", 0, "the left side of IN must be a property"),
        ("5", 0, "a number or a text is not a condition"),
        ("'x'", 0, "a number or a text is not a condition"),
        ("-a", 0, "a number or a text is not a condition"),
        ("a AND 5", 6, "a number or a text is not a condition"),
        ("NOT 'x'", 4, "a number or a text is not a condition"),
        ("b OR (-a)", 6, "a number or a text is not a condition"),
        ("a = 9223372036854775808", 4, "above 9223372036854775807"),
        ("a > -9223372036854775808", 5, "above 9223372036854775807"),
        ("a = " + "9" * 5000, 4, "above 9223372036854775807"),
        ("a > 0.0", 4, "below 5e-324"),
        ("a > 1e-400", 4, "below 5e-324"),
        ("a > 1e400", 4, "above 1.7976931348623157e308"),
    ],
)
def test_what_rocketmq_refuses_is_refused_with_the_place(text, at, reason):
    with pytest.raises(ExpressionRefused) as refusal:
        parse(text)
    assert reason in refusal.value.reason
    assert refusal.value.at == at
    assert f"character {refusal.value.at + 1}: " in str(refusal.value)
    assert refusal.value.response_code == 23


def test_the_sentence_shows_the_surroundings_on_one_line():
    with pytest.raises(SubscriptionParseFailed) as refusal:
        parse("region = 'n\u00f6rth' AND\nprice > AND size < 5 AND colour = 'green'")
    assert str(refusal.value).startswith("SQL92 expression, character 30: found 'AND', expected a property, a text")
    assert str(refusal.value).endswith(r"; ...'n\xf6rth' AND\nprice > >>>AND size < 5 AND col...")
    assert "\n" not in str(refusal.value)


def test_names_are_those_of_the_properties():
    assert property_names(parse("b = 'x' AND NOT (a IS NULL OR c IN ('z')) AND -b > 1")) == ("a", "b", "c")
    assert property_names(parse("TRUE")) == ()


@given(conditions)
def test_what_is_printed_reads_as_the_same_tree(tree):
    assert parse(format_expression(tree)) == tree


def refusal_of(text):
    """The error that refuses *text*, or its tree."""
    try:
        return None, parse(text)
    except SubscriptionParseFailed as problem:
        return problem, None


@given(anything)
def test_no_text_does_anything_but_parse_or_fail_to(text):
    refusal, tree = refusal_of(text)
    if refusal is None:
        assert parse(format_expression(tree)) == tree
    else:
        assert isinstance(refusal, ExpressionRefused)
        assert 0 <= refusal.at <= len(text)
        assert str(refusal).isascii()
