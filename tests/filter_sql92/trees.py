"""Random trees that a text can be parsed to, and random texts."""

from hypothesis import strategies as st

from gantrymq_filter_sql92.nodes import (
    And,
    Between,
    Boolean,
    Comparison,
    Double,
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
)

names = st.sampled_from(["a", "b", "c", "$", "_", "Inner", "null_", "TAGS"])
properties = names.map(Property)
texts = st.sampled_from(["", "a", "x", "'", "''x", "5", "-1", "true", "é😀", "--", "/*", "\n"]) | st.text(max_size=5)
booleans = st.sampled_from([True, False]).map(Boolean)
numbers = (
    st.integers(0, 5).map(Integer)
    | st.integers(0, 2**63 - 1).map(Integer)
    | st.floats(5e-324, allow_nan=False, allow_infinity=False).map(Double)
)
plain = properties | numbers | texts.map(Text) | booleans


def larger(conditions):
    values = st.deferred(lambda: plain | conditions.filter(lambda tree: not isinstance(tree, Present)) | negatives)
    negatives = (values | numbers).map(Negative)
    ordered = properties | numbers | negatives
    several = st.lists(conditions, min_size=2, max_size=3).map(tuple)
    equal = st.builds(Comparison, values, st.sampled_from(["=", "<>"]), values)
    between = st.builds(Between, ordered, ordered, ordered, st.booleans())
    operators = st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])
    return (
        conditions.map(Not)
        | several.map(And)
        | several.map(Or)
        | equal.filter(lambda tree: not _refused(tree.left, tree.right))
        | st.builds(Comparison, ordered, st.sampled_from(["<", "<=", ">", ">="]), ordered)
        | between.filter(lambda tree: tree.negated or not _descending(tree.low, tree.high))
        | st.builds(In, properties, st.lists(texts, min_size=1, max_size=6).map(tuple), st.booleans())
        | st.builds(IsNull, values | st.just(Boolean(None)), st.booleans())
        | st.builds(TextMatch, values, operators, texts, st.booleans())
    )


def _refused(left, right):
    nulls = [each for each in (left, right) if each == Boolean(None)]
    return nulls or (isinstance(left, Boolean) and isinstance(right, Text | Integer | Double))


def _descending(low, high):
    if isinstance(low, Integer) and isinstance(high, Integer):
        return low.value > high.value
    return isinstance(low, Integer | Double) and isinstance(high, Integer | Double) and float(low.value) > high.value


conditions = st.recursive(st.builds(Present, properties) | booleans | st.just(Boolean(None)), larger, max_leaves=8)

WORDS = "a b NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH = <> < <= > >= ( ) , + - 'x' '' 1 0"
WORDS += " 007 1.5 .5 1e3 5L 9223372036854775808 0.0 1e999 '' ' -- /* */ /**/ ; ! @ not In é \n \r \t \f \0 99999999999"
pieces = st.sampled_from([*WORDS.split(" "), " ", "-- c\n", "\u2028", "\ud800", "K", "ſ", "L", "e5", "."])
likely = st.lists(pieces, max_size=12).map(" ".join) | st.lists(pieces, max_size=12).map("".join)
anything = likely | st.text(max_size=30)

stored = st.dictionaries(
    names,
    st.sampled_from(["5", "-1", "x", "a", "true", "TRUE", "1.5", " 2 ", "NaN", "3000000000", "é😀", "+7"])
    | st.text(min_size=1),
    max_size=4,
).map(lambda found: "".join(f"{name}\x01{value}\x02" for name, value in found.items()).encode("utf-8", "replace"))
