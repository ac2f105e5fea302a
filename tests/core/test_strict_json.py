"""Strict JSON by orjson and by the standard library: the same texts, the same refusals."""

import json
import random
import subprocess
import sys

import pytest

from gantrymq import strict_json

orjson = pytest.importorskip("orjson")
CHARACTERS = 'ab"\\/\b\f\n\r\t\x00\x1f\x7f\x80 é ß   漢😀{}[]:,\\u'


def some_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 6)
    if kind < 2:
        return "".join(rng.choices(CHARACTERS, k=rng.randrange(12)))
    if kind < 6:
        return (rng.randrange(-(1 << 63), 1 << 63), rng.randrange(100), rng.random(), rng.choice([True, False, None]))[
            kind - 2
        ]
    parts = [some_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return parts if kind == 6 else {some_value(random.Random(n), 9) and f"k{n}": part for n, part in enumerate(parts)}


def test_both_write_and_read_the_same():
    rng = random.Random(18)
    for _ in range(2000):
        value = some_value(rng)
        text = strict_json._dumps(value)
        assert text == orjson.dumps(value)
        assert strict_json._loads(text) == strict_json._loads(text.decode()) == orjson.loads(text)
        spaced = json.dumps(value, indent=1)  # escapes instead of characters
        assert strict_json._loads(spaced) == orjson.loads(spaced)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a":1}x',
        "{'a':1}",
        "[1,]",
        "NaN",
        "[Infinity]",
        '"\\ud800"',
        '["\\uDC00"]',
        b'"\xff"',
        "01",
        "+1",
        '"\n"',
    ],
)
def test_both_refuse_what_is_no_json(text):
    for loads in (strict_json._loads, orjson.loads):
        with pytest.raises(ValueError):
            loads(text)


def test_text_without_end_is_refused_and_not_a_bug():
    with pytest.raises(ValueError, match="nested too deep"):
        strict_json._loads("[" * 100_000)


@pytest.mark.parametrize("value", ["\ud800", {"a": b"x"}, {"a": {1, 2}}])
def test_both_refuse_what_cannot_be_written(value):
    for dumps in (strict_json._dumps, orjson.dumps):
        with pytest.raises(TypeError):
            dumps(value)


WITHOUT = """
import sys
sys.modules["orjson"] = None
from gantrymq import strict_json
from gantrymq.loose_json import loads
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import FrameDecoder

assert strict_json.loads is strict_json._loads
assert loads(b'{0:"a",\\'b\\':1}') == {0: "a", "b": 1}
said = Command(10, ext={"topic": "T\\x07\\u00e9"}, remark="straße \\x1f", body=b"x")
frame = encode(said)
read = decode(FrameDecoder(len(frame)).feed(frame)[0])
assert (read.ext, read.remark, read.body) == (said.ext, said.remark, said.body)
sys.stdout.buffer.write(frame)
"""


def test_frames_are_the_same_without_orjson():
    from gantrymq.remoting.command import Command, encode

    alone = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, check=False)
    assert alone.returncode == 0, alone.stderr.decode()
    said = Command(10, ext={"topic": "T\x07é"}, remark="straße \x1f", body=b"x", opaque=0)
    assert alone.stdout[4:].split(b'"opaque"')[0] == encode(said)[4:].split(b'"opaque"')[0]
