"""Seeded random pairs of an SQL92 expression and the raw properties of a message, over the whole grammar and beside it.

Most expressions are right, with operands that often do not go together; some are wrong by what they compare, some by
one spoilt token or character, and some go on after their end. Properties often have the names and literals of their
expression; now and then their bytes are what no client writes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import sql92_values as values
from sql92_values import cased, pick, quoted

SEED = 1  # of the pairs that are held against Java
COUNT = 20_000
DEPTH = 3  # of parentheses and NOTs; parts of an expression get fewer
COMPARISONS = ("=", "=", "=", "<>", "<>", ">", ">=", "<", "<=")
PIECES = re.compile(r"'(?:[^']|'')*'|[A-Za-z_$][\w$]*|\d+(?:\.\d*)?|<>|<=|>=|\s+|.", re.DOTALL)
ORDERED = ("-Infinity", "-1", "-0", "-0.0", "0", "0.0", "5", "5.0", "1e400", "NaN", "x")
UNPAIRED = (b"", b"a", b"a\x01", b"a\x02", b"\x01\x02", b"\x02\x02", b"a\x01\x02", b"a\x015", b"b\x01x\x02a\x015")


class Pair(NamedTuple):
    """An expression and the raw properties of a message: name 0x01 value 0x02 ..."""

    expression: str
    properties: bytes


def pairs(seed: int, count: int) -> Iterator[Pair]:
    """The first *count* pairs of *seed*, the same at every call."""
    rng = random.Random(seed)
    for _ in range(count):
        expression = Writer(rng).expression()
        yield Pair(expression, properties(rng, expression))


def corners() -> list[Pair]:
    """Every value, number, blank and tail of sql92_values once or more, in the plainest expressions."""
    found = [
        Pair(expression, f"a\x01{value}\x02b\x015\x02c\x011.5\x02".encode())
        for value in sorted({value for group in values.VALUES for value in group})
        for expression in ("a = 5", "a > 1.5", "a <= 2147483648", "a = b", "c < a", "a = TRUE", "a IN ('5', 'true')")
    ]
    found += [
        Pair(expression, f"a\x01{one}\x02b\x01{other}\x02".encode())
        for one in ORDERED
        for other in ORDERED
        for expression in ("a = b", "a > b", "a <= b")
    ]
    five = b"a\x015\x02"
    numbers = (*values.UNSIGNED, *values.UNSIGNED_FLOATING, *values.WRONG_NUMBERS)
    found += [Pair(form.format(number), five) for number in numbers for form in ("a >= {}", "{} <> 5", "-{} < a")]
    blanks = (*dict.fromkeys(values.BLANKS), *values.WRONG_BLANKS, *values.GARBAGE)
    forms = ("a = 5{}", "a = 5 {}", "a{}= 5", "{}a = 5", "a {} 5", "(a = 5 {})", "a = '{}'")
    found += [Pair(form.format(blank), five) for blank in blanks for form in forms]
    return found


class Writer:
    """Writes one expression."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._wrong = 0.02 if rng.random() < 0.7 else 0.2  # the chance of an operand that does not go

    def expression(self) -> str:
        """An expression; one of five is spoilt in its text."""
        text = self._joined(self._any(self._rng.randint(0, DEPTH)))
        chance = self._rng.random()
        if chance < 0.08:
            return spoilt(self._rng, text)
        if chance < 0.13:
            return text + self._rng.choice(("", " ")) + self._rng.choice(values.GARBAGE)
        return text

    def _joined(self, tokens: list[str]) -> str:
        """Blanks between the tokens; none where they would not be missed, now and then."""
        text = self._blank() if self._chance(0.05) else ""
        for token in tokens:
            needed = text[-1:].isalnum() and token[:1].isalnum()
            text += (self._blank() if needed or self._chance(0.8) else "") + token if text else token
        return text + (self._blank() if self._chance(0.05) else "")

    def _blank(self) -> str:
        if self._chance(0.002):
            return self._rng.choice(values.WRONG_BLANKS)
        return " " if self._chance(0.8) else self._rng.choice(values.BLANKS)

    def _any(self, depth: int) -> list[str]:
        """An expression that is true, false or unknown."""
        chance = self._rng.random()
        if depth and chance < 0.4:
            word = cased(self._rng, self._rng.choice(("AND", "OR")))
            return [*self._any(depth - 1), word, *self._any(depth - 1)]
        if depth and chance < 0.5:
            return [cased(self._rng, "NOT"), *self._part(depth - 1)]
        if depth and chance < 0.6:
            return ["(", *self._any(depth - 1), ")"]
        return self._part(depth)

    def _part(self, depth: int) -> list[str]:
        kinds = (self._compared, self._compared, self._between, self._listed, self._searched, self._null, self._alone)
        return self._rng.choice(kinds)(depth)

    def _compared(self, depth: int) -> list[str]:
        tokens = self._operand(depth)
        for _ in range(2 if self._chance(0.04) else 1):
            operator = self._rng.choice(COMPARISONS)
            ordered = operator[0] in "<>" and operator != "<>"
            tokens = [*tokens, operator, *(self._number() if ordered and self._chance(0.7) else self._operand(depth))]
        return tokens

    def _between(self, depth: int) -> list[str]:
        low, high = self._number(), self._number()
        if len(low) == len(high) == 1 and self._chance(0.7):
            low, high = sorted((low, high), key=_size)
        bounds = [low, high] if self._chance(0.9) else [self._operand(depth), self._operand(depth)]
        return [
            *self._operand(depth),
            *self._maybe_not(),
            self._word("BETWEEN"),
            *bounds[0],
            self._word("AND"),
            *bounds[1],
        ]

    def _listed(self, depth: int) -> list[str]:
        items: list[str] = []
        for _ in range(self._rng.choice((1, 1, 2, 3, 4, 5, 6))):
            item = self._number()[-1] if self._chance(self._wrong / 3) else self._literal()
            items += [",", item] if items else [item]
        left = self._operand(depth) if self._chance(self._wrong) else [self._name()]
        return [*left, *self._maybe_not(), self._word("IN"), "(", *items, ")"]

    def _searched(self, depth: int) -> list[str]:
        word = self._word(self._rng.choice(("CONTAINS", "STARTSWITH", "ENDSWITH")))
        what = [self._literal()] if not self._chance(self._wrong / 2) else self._operand(depth)
        left = [self._name()] if self._chance(0.8) else self._operand(depth)
        return [*left, *self._maybe_not(), word, *what]

    def _null(self, depth: int) -> list[str]:
        left = [self._name()] if self._chance(0.85) else self._operand(depth)
        return [*left, self._word("IS"), *self._maybe_not(), self._word("NULL")]

    def _alone(self, depth: int) -> list[str]:
        chance = self._rng.random()
        if chance < 0.4:
            return [self._word(self._rng.choice(("TRUE", "FALSE", "NULL")))]
        return [self._name()] if chance < 0.85 else self._operand(depth)

    def _operand(self, depth: int) -> list[str]:
        """What stands beside an operator."""
        chance = self._rng.random()
        if chance < 0.55:
            return [self._name()]
        if chance < 0.7:
            return self._number()
        if chance < 0.8:
            return [self._literal()]
        if chance < 0.84:
            return [self._word(self._rng.choice(("TRUE", "FALSE", "NULL")))]
        if chance < 0.88:
            return [self._rng.choice("+-"), *self._operand(depth)]
        if chance < 0.92:
            return ["(", *self._operand(depth), ")"]
        if depth and chance < 0.96:
            return ["(", *self._any(depth - 1), ")"]
        return [self._name()]

    def _number(self) -> list[str]:
        """A number, with or without a sign."""
        if self._chance(self._wrong / 2):
            return [self._rng.choice(values.WRONG_NUMBERS)]
        sign = [self._rng.choice("+--")] if self._chance(0.2) else []
        return [*sign, pick(self._rng, values.UNSIGNED, values.UNSIGNED, values.UNSIGNED_FLOATING)]

    def _literal(self) -> str:
        if self._chance(0.03):
            return "''"
        return quoted(values.value(self._rng) if self._chance(0.5) else self._rng.choice(values.TEXTS))

    def _name(self) -> str:
        return self._rng.choice(values.NAMES[:3] if self._chance(0.6) else values.NAMES)

    def _maybe_not(self) -> list[str]:
        return [self._word("NOT")] if self._chance(0.3) else []

    def _word(self, word: str) -> str:
        return cased(self._rng, word)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share


def _size(number: list[str]) -> float:
    with suppress(ValueError):
        return float(number[0].strip("lL"))
    return 0.0


def spoilt(rng: random.Random, text: str) -> str:
    """*text* with one piece of it removed, doubled, put elsewhere or replaced, or one character."""
    if rng.random() < 0.3:
        at = rng.randrange(len(text) + 1)
        return (
            text[:at] + rng.choice(("", "'", "(", ")", "=", "<", "@", "\u017f", "\x00", "-", "E", "5")) + text[at + 1 :]
        )
    pieces: list[str] = PIECES.findall(text)
    at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    match rng.randrange(5):
        case 0:
            del pieces[at]
        case 1:
            pieces.insert(at, pieces[at])
        case 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case 3:
            pieces[at] = rng.choice((cased(rng, rng.choice(values.KEYWORDS)), rng.choice(values.GARBAGE)))
        case 4:
            del pieces[at:]
    return "".join(pieces)


def properties(rng: random.Random, expression: str) -> bytes:
    """Properties of a message; most of the names and many of the literals are the expression's."""
    if rng.random() < 0.03:
        return rng.choice(UNPAIRED)
    pieces: list[str] = PIECES.findall(expression)
    literals = [piece.strip("'").replace("''", "'") for piece in pieces if piece[0] == "'" or piece[0].isdigit()]
    named = [piece for piece in dict.fromkeys(pieces) if piece in values.NAMES]
    chosen = [name for name in named if rng.random() < 0.85]
    chosen += rng.sample(values.NAMES, rng.randint(0, 3))
    rng.shuffle(chosen)
    numeric = rng.random() < 0.6
    fields = []
    for name in chosen:
        if literals and rng.random() < 0.35:
            value = near(rng, rng.choice(literals))
        elif numeric:
            value = pick(rng, *values.NUMBERS_AS_TEXT[: rng.choice((2, 4, 6))])
        else:
            value = values.value(rng)
        fields.append(f"{name}\x01{value}".encode())
    raw = b"\x02".join(fields) + (b"\x02" if rng.random() < 0.9 else b"")
    if rng.random() < 0.03:
        at = rng.randrange(len(raw) + 1)
        raw = raw[:at] + rng.choice((b"\xff", b"\x01", b"\x02", b"\xc3", b"\x02\x02", b"\xed\xa0\x80")) + raw[at:]
    return raw


def near(rng: random.Random, literal: str) -> str:
    """The literal itself, or something with it."""
    chance = rng.random()
    if chance < 0.6:
        return literal
    return rng.choice((f"{literal}0", f"x{literal}", f"{literal}x", f"-{literal}", f" {literal}", literal.swapcase()))
