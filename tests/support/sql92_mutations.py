"""Seeded mutations of SQL92 expressions for the fuzzer, from one wrong character to a part repeated without measure."""

from __future__ import annotations

import random

import sql92_values as values
from sql92_pairs import PIECES, Writer, pairs, spoilt

CORPUS = 300  # expressions that mutations begin with
LARGEST = 20_000  # characters; far over what a parser has to take
NESTING = (
    *("(", "NOT ", "+", "-", "- ", "((", "(NOT ", "a = (", "'", "''", "/*", "/**/", "/* *", "** ", "-- \n", "--", "\n"),
    *("1", "a", "a=", "a AND ", "0", ".", "1e", "$", "x BETWEEN ", "x IN ("),
)
LINKS = (
    *(" AND a = 1", " OR a", " = b", " <> 1", " IS NULL", " IS NOT NULL", " CONTAINS 'x'", " NOT IN ('x')", ", 'x'"),
    *(")", " NOT BETWEEN 1 AND 2"),
)
CHARACTERS = (
    *("\x00", "\x7f", "\x85", "\u0130", "\u0131", "\u017f", "\u212a", "\u2028", "\u0665", "\U0001f600", "\ufeff"),
    *("\ufffd", "\u00e9"),
)


def corpus() -> list[str]:
    """Expressions to mutate, right and wrong."""
    return [pair.expression for pair in pairs(2, CORPUS)]


def mutated(rng: random.Random, texts: list[str]) -> str:
    """One of *texts*, or a new one, mutated once to four times."""
    text = rng.choice(texts) if rng.random() < 0.8 else Writer(rng).expression()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        text = rng.choices(MUTATIONS, WEIGHTS)[0](rng, text, texts)[:LARGEST]
    return text


def _character(rng: random.Random, text: str, texts: list[str]) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at]
        + rng.choice((*CHARACTERS, chr(rng.randrange(0x80)), chr(rng.randrange(0xD800))))
        + text[at + rng.randrange(2) :]
    )


def _piece(rng: random.Random, text: str, texts: list[str]) -> str:
    return spoilt(rng, text) if text else text


def _spliced(rng: random.Random, text: str, texts: list[str]) -> str:
    other = rng.choice(texts)
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


def _word(rng: random.Random, text: str, texts: list[str]) -> str:
    pieces: list[str] = PIECES.findall(text)
    pieces.insert(
        rng.randrange(len(pieces) + 1), f" {values.pick(rng, values.KEYWORDS, values.GARBAGE, values.WRONG_NUMBERS)} "
    )
    return "".join(pieces)


def _number(rng: random.Random, text: str, texts: list[str]) -> str:
    digits = "".join(rng.choices("0123456789.eE+-", k=rng.choice((3, 20, 400))))
    return text.replace(rng.choice("0157a"), digits, 1)


def _cut(rng: random.Random, text: str, texts: list[str]) -> str:
    begin, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return text[begin:end]


def _repeated(rng: random.Random, text: str, texts: list[str]) -> str:
    begin = rng.randrange(len(text) + 1)
    part = text[begin : begin + rng.randint(1, 12)]
    return text[:begin] + part * rng.choice((2, 10, 100)) + text[begin:]


def _nested(rng: random.Random, text: str, texts: list[str]) -> str:
    count = rng.choice((1, 5, 30, 63, 64, 65, 200, 3_000))
    if rng.random() < 0.4:
        return text + rng.choice(LINKS) * count
    opening = rng.choice(NESTING)
    closing = ")" * opening.count("(") * (count if rng.random() < 0.8 else count - 1)
    return opening * count + text + closing


MUTATIONS = (_character, _piece, _spliced, _word, _number, _cut, _repeated, _nested)
WEIGHTS = (25, 25, 15, 15, 8, 5, 5, 2)
