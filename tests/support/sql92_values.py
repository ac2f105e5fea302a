"""What random SQL92 pairs are made of: names, values of properties, literals, blanks. All that Java reads its own way
is among the values: what its numbers may look like, its digits beyond ASCII, its blanks, its own texts for NaN.
"""

from __future__ import annotations

import random

NAMES = ("a", "b", "c", "A", "price", "region", "_x", "$y", "a1", "TAGS", "inx", "NOTA", "istrue", "order", "nul", "e5")
KEYWORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "STARTSWITH", "ENDSWITH")

WHOLE = ("0", "1", "5", "7", "10", "42", "-1", "-5", "+5", "05", "00", "-0", "2147483647", "2147483648", "-2147483648")
LARGE = (
    *("-2147483649", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "99999999999999999999", "1" + "0" * 309, "0" * 30 + "5"),
)
FLOATING = (
    *("0.5", "1.5", "5.0", "5.", ".5", "1e3", "1E3", "1.50e+2", "5e-1", "0.0", "-0.0", "+0.0", "1e400", "1e-400"),
    *("4.9e-324", "2e-324", "1.7976931348623157e308", "1.7976931348623159e308", "9007199254740992.0", "0.1", "1e+5"),
    *("-1e400", "2147483648.0", "9223372036854775807.0", "0.30000000000000004"),
)
JAVA_ONLY = (  # Double.valueOf takes these and float() does not, or the reverse
    *("NaN", "-NaN", "+NaN", "nan", "NAN", "Infinity", "-Infinity", "+Infinity", "infinity", "inf", "INF", "1d", "1f"),
    *("5D", "5F", "1.5e1d", "0x1p3", "0X1.8P1", "0x10", "0x.8p1", "0x1p", "1_000", "1__0", "5L", "1,5", " 5", "5 "),
    *("\t5\n", "\x1f5", "\x005", "5\x0b", "\u00a05", "5\u2003", "\u30005", "", " ", "1 5", "--5", "+-5", "e5", "1e"),
    *(".", "+", "-", ".e1", "1e5.0", "0b1", "0o7", "0xAp0", "1p3", "1.5.5", "5d ", " 5f", "5dd", "NaNd", "Infinityf"),
)
DIGITS = ("\u0661\u0662", "\uff15", "\u096b", "-\u0665", "\U0001d7cf", "5\u0665", "\u00b2", "\u2460", "\u0665.5")
TRUTHS = ("true", "false", "True", "TRUE", "tRuE", "FALSE", "null", "NULL", "yes", " true", "t")
TEXTS = (
    *("abc", "ABC", "hangzhou", "it's", "''", "'", "a b", "x||y", "--", "/*", "*/", "%", "\\", '"', "a\nb", "\u00fc"),
    *(
        "u\u0308",
        "\u4e2d\u6587",
        "\U0001f600",
        "\U0001f600x",
        "\u212a",
        "\u017f",
        "\u0130",
        "\ufeffa",
        "\ufffd",
        "\x7f",
    ),
)
NUMBERS_AS_TEXT = (WHOLE, WHOLE, LARGE, FLOATING, JAVA_ONLY, DIGITS)
VALUES = (WHOLE, WHOLE, WHOLE, FLOATING, LARGE, JAVA_ONLY, DIGITS, TRUTHS, TEXTS, TEXTS)
SPOILT = "0123456789+-.eExXpPdDfF NaIinfty_"

UNSIGNED = ("0", "1", "5", "7", "10", "42", "2147483647", "2147483648", "9223372036854775807", "5L", "5l", "42L")
UNSIGNED_FLOATING = (
    *("0.5", "1.5", "5.0", "5.", ".5", "1e3", "1E3", "1.5E+2", "5e-1", "4.9e-324", "1.7976931348623157e308", "0.1"),
    *("05.5", "00.5", "10.0", "42.0", "9007199254740992.0", "2147483648.0"),
)
WRONG_NUMBERS = (
    *("0.0", "0e0", "1e400", "1e-400", "2e-324", "9223372036854775808", "99999999999999999999L", "1.8e308", "0."),
    *("00", "05", "0l", "5LL", "1.5L", "1.5.5", "5e", "5e+", "0x10", "5d", "1_000", "12abc", "\uff15", "\u0665"),
)
BLANKS = (" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", "/* c */", "/**/", "-- c\n", "--\r", " /* * / ** */ ")
WRONG_BLANKS = ("\u00a0", "\x0b", "\u3000", "\x00", "\x1c", "\u2028", "\ufeff", "/*", "-- c", "//", "#")
GARBAGE = (
    *(
        ")",
        "(",
        "foo",
        "5",
        "'x'",
        "'x",
        ";",
        "@",
        "&&",
        "||",
        "==",
        "!=",
        "= =",
        "< >",
        "> =",
        ",",
        "NULL",
        "garbage @",
    ),
    *("-- end", "-- end\n", "/* end", "/* end */", "IS", "NOT", "NOT NULL", "IS NOT", "AND", "OR", "*", "/", "+ 5"),
    *(
        "- 5",
        "%",
        '"x"',
        "\u017f",
        "\u212a",
        "\u0130s",
        "LIKE 'x'",
        "[",
        "{",
        "?",
        ":",
        "'",
        "\\",
        "\u4e2d",
        "\U0001f600",
    ),
)


def pick(rng: random.Random, *groups: tuple[str, ...]) -> str:
    """One of the texts of one of the *groups*."""
    return rng.choice(rng.choice(groups))


def value(rng: random.Random) -> str:
    """The value of a property."""
    if rng.random() < 0.08:
        return "".join(rng.choices(SPOILT, k=rng.randint(1, 8)))
    return pick(rng, *VALUES)


def cased(rng: random.Random, word: str) -> str:
    """A keyword, in capitals most of the time."""
    chance = rng.random()
    if chance < 0.6:
        return word
    if chance < 0.85:
        return word.lower()
    return "".join(rng.choice((letter.lower(), letter)) for letter in word)


def quoted(text: str) -> str:
    """*text* as a literal."""
    return "'" + text.replace("'", "''") + "'"
