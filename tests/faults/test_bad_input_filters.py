"""SQL92 expressions that RocketMQ refuses too, and those beyond our limits."""

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from click.testing import CliRunner
from faulty_broker import FAST, start_broker

from gantrymq_filter_sql92.commands import filter_

PLUGINS = FAST["plugins"] + ",filter_sql92"
LITERALS = "a text in single quotes, a number, (, a sign, FALSE, NOT, NULL or TRUE"


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """The broker of `broker`, with SQL92."""
    running = start_broker(tmp_path_factory.mktemp("filters") / "store", plugins=PLUGINS)
    with running.peer() as peer:
        assert peer.send("T", b"one", "a\x015\x02", e=0).code == 0
    yield running
    running.close()


@pytest.fixture
def refuses(broker, row):
    """Pull with an expression; compare code and sentence with the row."""

    def check(expression, **values):
        with broker.peer() as peer:
            answer = peer.pull("T", expressionType="SQL92", subscription=expression)
            row.check(answer.remark, answer.code, **values)
            assert peer.pull("T", expressionType="SQL92", subscription="a = 5").code == 0

    return check


@pytest.mark.parametrize(
    ("expression", "place", "found", "expected", "around"),
    [
        ("a >", 4, "the end", f"a property, {LITERALS}", "a >>>>"),
        ("a > AND b", 5, "'AND'", f"a property, {LITERALS}", "a > >>>AND b"),
        ("a IN (5)", 7, "'5'", "a text in single quotes", "a IN (>>>5)"),
        ("a NOT 5", 7, "'5'", "BETWEEN, CONTAINS, ENDSWITH, IN or STARTSWITH", "a NOT >>>5"),
    ],
)
def test_bi212_an_expression_with_something_at_the_wrong_place(refuses, expression, place, found, expected, around):
    refuses(expression, place=place, found=found, expected=expected, around=around)


def test_bi213_a_character_with_which_nothing_can_start(refuses):
    refuses("a != 5", place=3, found="'!'", around="a >>>!= 5")


def test_bi214_a_text_without_its_closing_quote(refuses):
    refuses("a = 'it''s", place=9, around="a = 'it'>>>'s")


@pytest.mark.parametrize(
    ("expression", "found", "operator", "around"),
    [
        ("'x' > a", "a text", ">", ">>>'x' > a"),
        ("TRUE <= a", "a condition, TRUE, FALSE or NULL", "<=", ">>>TRUE <= a"),
        ("NOT a BETWEEN 1 AND 2", "a condition, TRUE, FALSE or NULL", "BETWEEN", ">>>NOT a BETWEEN 1 AND ..."),
    ],
)
def test_bi215_an_ordering_comparison_of_unordered_values(refuses, expression, found, operator, around):
    refuses(expression, place=1, found=found, operator=operator, around=around)


def test_bi216_a_range_that_ends_before_it_begins(refuses):
    refuses("a BETWEEN 5 AND 1", place=11, low=5, high=1, around="a BETWEEN >>>5 AND 1")


@pytest.mark.parametrize("operator", ["=", "<>"])
def test_bi217_a_comparison_with_null(refuses, operator):
    refuses(f"NULL {operator} a", place=1, operator=operator, around=f">>>NULL {operator} a")


def test_bi218_a_number_where_a_condition_belongs(refuses):
    refuses("a AND 5", place=7, around="a AND >>>5")


def test_bi219_in_behind_something_else_than_a_property(refuses):
    refuses("'x' IN ('x')", place=1, around=">>>'x' IN ('x')")


def test_bi220_a_whole_number_of_more_than_64_bits(refuses):
    refuses("a > 9223372036854775808", place=5, number=2**63, around="a > >>>9223372036854775808")


def test_bi221_an_expression_that_is_too_long(refuses):
    refuses("a = '" + "x" * 20000 + "'", count="20,006", around="..." + "x" * 20 + ">>>" + "x" * 20 + "...")


def test_bi222_an_expression_of_too_many_parts(refuses):
    refuses("a OR " * 2000 + "a", place=5001, around="...a OR a OR a OR a OR >>>a OR a OR a OR a OR ...")


def test_bi223_an_expression_that_is_nested_too_deep(refuses):
    refuses("NOT " * 200 + "a", levels=202, around=">>>NOT NOT NOT NOT NOT ...")


@pytest.mark.parametrize("text", ["a", "=5", "a=", "a=\x01"])
def test_bi224_a_property_that_is_no_pair(row, text):
    ended = CliRunner().invoke(filter_, ["test", "a = 5", "-p", text])
    row.check(ended.stderr.strip().splitlines()[-1], f"exit {ended.exit_code}", text=repr(text))
