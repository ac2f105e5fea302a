"""Send requests of clients that always write their headers alike: compared with earlier ones instead of parsed.

The headers of a Java client's sends differ from message to message in four values and in the unique id among the
properties:

    {"code":310,"extFields":{..,"e":"<queue id>",..,"g":"<born>",..,"i":"..UNIQ_KEY\\u0001<id>\\u0002..",..},..
     "opaque":<number>,..}

The text around these values is a shape. A header whose text around them is that of one which was parsed before says,
but for these values, what that one said. A shape is kept when it comes a second time, and only if a header made of it
with other values parses to exactly these values: so what `SendShapes` returns never differs from what `decode` returns.

Neighbours mostly come from one client. So a shape that comes again and again becomes a regular expression, which the
next header is held against first; only where that fails is it cut into values and what lies between them, to look its
shape up. Clients that send to many topics in turn have many shapes and no such neighbours; theirs are always looked up.

Source of the order of the fields: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeaderV2.java,
RemotingSerializable.java (fastjson sorts by name); versions 4.9 to 5.5 write them alike.
"""

from __future__ import annotations

import re
from typing import Final

from gantrymq import speedups
from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.codes import SERIALIZE_JSON, RequestCode
from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import Frame

__all__ = ["SendShape", "SendShapes", "ShapedSend"]

MOST_SHAPES: Final = 16384  # a client has one for each topic it sends to
MOST_SHAPE_BYTES: Final = 16 * 1024 * 1024  # of their text
MOST_CANDIDATES: Final = 2 * MOST_SHAPES
WORTH_A_PATTERN: Final = 16  # times that a shape came twice running before it gets one, which costs 300 us
MOST_PATTERNS: Final = 64
MAX_DIGITS: Final = 18
MAX_HEADER_BYTES: Final = 4096  # longer ones are parsed: what is kept stays small

_BEGIN: Final = b'{"code":%d,' % RequestCode.SEND_MESSAGE_V2
_ID_MARK: Final = "UNIQ_KEY\x01"
_RAW_ID_MARK: Final = b"UNIQ_KEY\\u0001"
_RAW_PAIR_END: Final = b"\\u0002"
_QUEUE_IDS: Final = {str(number).encode(): number for number in range(1024)}
_MAX_OPAQUE: Final = 0x7FFFFFFF
_QUEUE: Final = rb"(0|[1-9][0-9]{0,2})"
_BORN: Final = rb"(0|[1-9][0-9]{0,17})"
_ID: Final = rb"([0-9A-Za-z]{1,255})"
_OPAQUE: Final = rb"(0|[1-9][0-9]{0,8})"
_NAMES: Final = (b'"e":"', b'"g":"', b'"i":"', _RAW_ID_MARK, _RAW_PAIR_END, b'"opaque":')  # of the values, in order
_GAP: Final = b"\0"  # stands for a value; JSON escapes it, and a header that does not has no shape
_ZERO: Final = ord("0")

Literals = tuple[bytes, ...]


class SendShape:
    """What all send headers with one text around their values say."""

    __slots__ = (
        "_literals",
        "between",
        "flag",
        "language",
        "properties_after",
        "properties_before",
        "running",
        "version",
    )

    def __init__(self, literals: Literals, command: Command, before: str, after: str) -> None:
        self.running = 0  # how often it came twice running
        self._literals = literals
        self.between = tuple(_joined(literals, _GAP, _GAP, _GAP, _GAP).split(_GAP))  # what stands around the values
        self.language = command.language
        self.version = command.version
        self.flag = command.flag
        self.properties_before = before  # properties up to the name of the unique id
        self.properties_after = after  # and behind the id and its 0x02

    def pattern(self) -> re.Pattern[bytes]:
        """Headers of this shape; its groups are queue id, born timestamp, unique id and opaque.

        Numbers that nobody sends (very long ones, zeros in front) do not match.
        """
        head, *rest = map(re.escape, self.between)
        values = (_QUEUE, _BORN, _ID, _OPAQUE)
        return re.compile(head + b"".join(value + text for value, text in zip(values, rest, strict=True)))

    def ext(self, queue_id: str, born: str, unique_id: str) -> dict[str, str]:
        """The extFields of a header of this shape with these values."""
        own = decode(Frame(SERIALIZE_JSON, _joined(self._literals, b"0", b"0", b"0", b"0"), None)).ext
        properties = f"{self.properties_before}{_ID_MARK}{unique_id}\x02{self.properties_after}"
        return {**(own or {}), "e": queue_id, "g": born, "i": properties}


class ShapedSend(Command):
    """A send (310) whose header has a known shape; in everything a `Command`, whose ext is put together when asked for.

    ``queue_id`` is 0 to 1023, ``born_timestamp`` in ms and not negative, ``unique_id`` ASCII letters and digits.
    """

    __slots__ = ("_ext", "born_timestamp", "queue_id", "shape", "unique_id")

    def __init__(
        self, shape: SendShape, opaque: int, queue_id: int, born_timestamp: int, unique_id: bytes, body: bytes | None
    ) -> None:
        self.code = 310
        self.language = shape.language
        self.version = shape.version
        self.opaque = opaque
        self.flag = shape.flag
        self.remark = None
        self.body = body
        self.serialize = SERIALIZE_JSON
        self.shape = shape
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.unique_id = unique_id
        self._ext: dict[str, str] | None = None

    @property
    def ext(self) -> dict[str, str] | None:  # a plain attribute of other commands
        """The extFields, as `decode` gives them."""
        if self._ext is None:
            self._ext = self.shape.ext(str(self.queue_id), str(self.born_timestamp), self.unique_id.decode())
        return self._ext

    @ext.setter
    def ext(self, fields: dict[str, str] | None) -> None:
        self._ext = fields


_match_sends = (
    None
    if speedups.compiled is None
    else speedups.compiled.SendMatcher(
        ShapedSend, SendShape, int(RequestCode.SEND_MESSAGE_V2), (*_NAMES, _BEGIN), MAX_HEADER_BYTES
    )
)  # appends the commands of frames up to the first that has no known shape, and returns the newest shape


class SendShapes:
    """The shapes that the clients of one server use. Belongs to the event loop."""

    def __init__(self) -> None:
        self._shapes: dict[Literals, SendShape] = {}
        self._bytes = 0  # of their text
        self._patterns: dict[SendShape, re.Pattern[bytes]] = {}
        self._newest: SendShape | None = None  # of the newest send whose shape is known
        self._usual: tuple[SendShape, re.Pattern[bytes]] | None = None  # the newest one that has a pattern
        self._seen: dict[int, int] = {}  # how often, by hash; where two collide, one may never be learnt

    def decode_all(self, frames: list[Frame], commands: list[Command]) -> None:
        """Append the command of each frame, as `decode` gives it, to *commands*, which are empty. Budget: as `decode`;
        compiled, 0.4 us for a send of a known shape.

        Raises:
            RemoteProtocolError: a header cannot be read; the commands before it are there.
        """
        while len(commands) < len(frames):
            if _match_sends is not None:
                self._newest = _match_sends(self._shapes, self._newest, frames, len(commands), commands)
                if len(commands) == len(frames):
                    break
            commands.append(self.decode(frames[len(commands)]))

    def decode(self, frame: Frame) -> Command:
        """As `command.decode`. Budget: 1.5 us for a send shaped like the one before it, 2.5 us for
        other known shapes, 1.7 us on top of decoding for unknown ones.

        Raises:
            RemoteProtocolError: the header cannot be read.
        """
        codec, header, body = frame
        usual = self._usual
        if usual is not None and codec == SERIALIZE_JSON and (found := usual[1].fullmatch(header)) is not None:
            queue_text, born, unique_id, opaque_text = found.groups()
            return ShapedSend(usual[0], int(opaque_text), int(queue_text), int(born), unique_id, body)
        if codec != SERIALIZE_JSON or len(header) > MAX_HEADER_BYTES or not header.startswith(_BEGIN):
            return decode(frame)
        literals, queue_text, born, unique_id, opaque_text = _cut(header)
        shape = self._shapes.get(literals)
        if shape is None:
            command = decode(frame)
            self._learn(literals, command, len(header))
            return command
        queue_id = _QUEUE_IDS.get(queue_text)
        if (
            queue_id is None
            or not (unique_id.isalnum() and born.isdigit() and opaque_text.isdigit())
            or (born[0] == _ZERO and len(born) > 1)  # or the text made of the number would be another one
            or len(born) > MAX_DIGITS
            or len(opaque_text) > MAX_DIGITS
            or (opaque := int(opaque_text)) > _MAX_OPAQUE
        ):
            return decode(frame)
        if shape is self._newest:
            shape.running += 1
            if shape.running > WORTH_A_PATTERN:
                self._usual = (shape, self._pattern(shape))
        self._newest = shape
        return ShapedSend(shape, opaque, queue_id, int(born), unique_id, body)

    def _pattern(self, shape: SendShape) -> re.Pattern[bytes]:
        found = self._patterns.get(shape)
        if found is None:
            if len(self._patterns) >= MOST_PATTERNS:
                self._patterns.clear()
            found = self._patterns[shape] = shape.pattern()
        return found

    def _learn(self, literals: Literals, command: Command, size: int) -> None:
        mark = hash(literals)
        seen = self._seen.get(mark, 0)
        if seen < 2:
            if len(self._seen) >= MOST_CANDIDATES:
                self._seen.clear()
            self._seen[mark] = seen + 1
        shape = _proven(literals, command) if seen == 1 else None
        if shape is not None:
            if len(self._shapes) >= MOST_SHAPES or self._bytes > MOST_SHAPE_BYTES:
                self._shapes.clear()
                self._bytes = 0
            self._shapes[literals] = shape
            self._bytes += size


def _cut(header: bytes) -> tuple[Literals, bytes, bytes, bytes, bytes]:
    """Literals, queue id, born timestamp, unique id, opaque: cut at the first place where each value may stand.

    Where a value is not found, it and what comes behind it are empty: no shape has such literals.
    """
    e, g, i, mark, pair_end, number = _NAMES
    head, _, rest = header.partition(e)
    queue_id, _, rest = rest.partition(b'"')
    middle, _, rest = rest.partition(g)
    born, _, rest = rest.partition(b'"')
    later, _, rest = rest.partition(i)
    properties, _, rest = rest.partition(b'"')
    tail, _, rest = rest.partition(number)
    opaque, _, end = rest.partition(b",")
    before, _, rest = properties.partition(mark)
    unique_id, _, after = rest.partition(pair_end)
    return (head, middle, later, before, after, tail, end), queue_id, born, unique_id, opaque


def _joined(literals: Literals, queue_id: bytes, born: bytes, unique_id: bytes, opaque: bytes) -> bytes:
    """The header that `_cut` cuts into these."""
    head, middle, later, before, after, tail, end = literals
    e, g, i, mark, pair_end, number = _NAMES
    properties = (before, mark, unique_id, pair_end, after)
    pieces = (head, e, queue_id, b'"', middle, g, born, b'"', later, i, *properties, b'"', tail)
    return b"".join((*pieces, number, opaque, b",", end))


def _proven(literals: Literals, command: Command) -> SendShape | None:
    """The shape of *command*, whose header has *literals*; None unless another such header reads as it should."""
    ext = command.ext
    if ext is None or command.remark is not None or any(_GAP in text for text in literals):
        return None
    before, mark, rest = ext.get("i", "").partition(_ID_MARK)
    _, end, after = rest.partition("\x02")
    if not mark or not end:
        return None
    shape = SendShape(literals, command, before, after)
    header = _joined(literals, b"1021", b"1234567890123", b"PROBE", b"987654321")
    try:
        probe = decode(Frame(SERIALIZE_JSON, header, None))
    except RemoteProtocolError:
        return None
    same = ("code", "language", "version", "flag", "remark", "serialize")
    if (
        probe.opaque != 987654321
        or probe.ext != shape.ext("1021", "1234567890123", "PROBE")
        or any(getattr(probe, name) != getattr(command, name) for name in same)
    ):
        return None
    return shape
