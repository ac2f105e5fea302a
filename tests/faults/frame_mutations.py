"""Frames that are almost right: eleven ways to corrupt a recorded one, chosen by a seeded generator.

| length u32 | codec u8, header length u24 | header | body |
"""

from __future__ import annotations

import importlib.util
import random
import re
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

PREFIX = struct.Struct(">II")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "frames.py"
HUGE = (b"-1", b"0", b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775807", b"9" * 25, b"1e400", b"NaN")
BAD_UTF8 = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x00")
DEPTH = 20_000

Frame = tuple[int, bytes, bytes]  # codec, header, body


@cache
def recorded() -> dict[str, list[bytes]]:
    """Requests of all recordings, by whom they were sent to: ``broker`` and ``ns``."""
    spec = importlib.util.spec_from_file_location("golden_frames", GOLDEN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, list[bytes]] = {"broker": [], "ns": []}
    for note, frame in module.load():
        target = note["dir"].partition("->")[2]
        if target in found and not note["flag"] & 1:
            found[target].append(bytes(frame))
    return found


def mutated(rng: random.Random, frames: list[bytes]) -> bytes:
    """One of *frames*, corrupted in one or two ways, or sometimes unchanged."""
    frame = rng.choice(frames)
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        frame = rng.choice(MUTATIONS)(rng, frame, frames)
    return frame


def parts(frame: bytes) -> Frame:
    """Codec, header and body, of a frame that may be corrupted already."""
    if len(frame) < PREFIX.size:
        return 0, b"", b""
    mark = PREFIX.unpack_from(frame)[1]
    split = PREFIX.size + (mark & 0xFFFFFF)
    return mark >> 24, frame[PREFIX.size : split], frame[split:]


def whole(codec: int, header: bytes, body: bytes) -> bytes:
    """A frame with correct lengths."""
    header = header[:0xFFFFFF]
    return PREFIX.pack(4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def flip_bits(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    data = bytearray(frame or b"\0")
    for _ in range(rng.choice((1, 1, 3, 20))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip_header_bits(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, body = parts(frame)
    return whole(codec, flip_bits(rng, header, frames), body)


def lie_about_length(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    length = rng.choice((0, 1, 3, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 16 << 20, len(frame) + rng.randint(-9, 9)))
    return struct.pack(">I", length & 0xFFFFFFFF) + frame[4:]


def lie_about_header(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, _ = parts(frame)
    length = rng.choice((0, 1, 0xFFFFFF, len(header) + rng.randint(-9, 9)))
    return frame[:4] + struct.pack(">I", rng.choice((codec, 1, 7)) << 24 | length & 0xFFFFFF) + frame[8:]


def truncate(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    cut = frame[: rng.randrange(len(frame) + 1)]
    return cut if rng.random() < 0.5 else whole(*parts(cut))


def swap_header(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, _ = parts(rng.choice(frames))
    return whole(codec, header, parts(frame)[2])


def grow_number(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, body = parts(frame)
    in_body = bool(body) and rng.random() < 0.3
    text = body if in_body else header
    numbers = list(re.finditer(rb"-?\d+", text))
    if numbers:
        found = rng.choice(numbers)
        text = text[: found.start()] + rng.choice(HUGE) + text[found.end() :]
    return whole(codec, header, text) if in_body else whole(codec, text, body)


def nest_deeply(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, body = parts(frame)
    opening = rng.choice((b"[", b'{"a":', b'[{"a":'))
    nest = opening * rng.choice((10, 600, DEPTH))
    if rng.random() < 0.5:
        return whole(codec, header, nest)
    at = header.find(b'"extFields":')
    return whole(codec, header[:at] + b'"extFields":' + nest + header[at:], body)


def spoil_text(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, body = parts(frame)
    at, bad = rng.randrange(len(header) + 1), rng.choice(BAD_UTF8)
    if body and rng.random() < 0.3:
        at = rng.randrange(len(body) + 1)
        return whole(codec, header, body[:at] + bad + body[at:])
    return whole(codec, header[:at] + bad + header[at:], body)


def change_code(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    codec, header, body = parts(frame)
    number = b"%d" % rng.choice((rng.randrange(1000), rng.randrange(3000), -1, 1 << 31, 1 << 40))
    return whole(codec, re.sub(rb'"code":-?\d+', b'"code":' + number, header, count=1), body)


def splice(rng: random.Random, frame: bytes, frames: list[bytes]) -> bytes:
    other = rng.choice(frames)
    return frame[: rng.randrange(len(frame) + 1)] + other[rng.randrange(len(other) + 1) :]


MUTATIONS: tuple[Callable[[random.Random, bytes, list[bytes]], bytes], ...] = (
    flip_bits,
    flip_header_bits,
    lie_about_length,
    lie_about_header,
    truncate,
    swap_header,
    grow_number,
    nest_deeply,
    spoil_text,
    change_code,
    splice,
)
