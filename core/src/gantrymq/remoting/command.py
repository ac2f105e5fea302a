"""Commands: decoded frames, with headers in JSON or in RocketMQ's binary format. No I/O.

    JSON    {"code":..,"extFields":{..},"flag":..,"language":"JAVA","opaque":..,"remark":..,
             "serializeTypeCurrentRPC":"JSON","version":..}         UTF-8; remark and extFields only if set
    binary  | code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark i32 + text | ext i32 + entries |
            entry: | key i16 + text | value i32 + text |

Sources: apache/rocketmq remoting/.../protocol/RemotingCommand.java, RocketMQSerializable.java, SerializeType.java.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from gantrymq import strict_json
from gantrymq.errors import FormatError, LocalProtocolError, RemoteProtocolError
from gantrymq.loose_json import dumps, loads
from gantrymq.remoting.codes import (
    CURRENT_VERSION,
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    SERIALIZE_BINARY,
    SERIALIZE_JSON,
    LanguageCode,
)
from gantrymq.remoting.frame import MAX_FRAME_BYTES, PREFIX, Frame

_LONG_HEADER_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 256  # of a long header in JSON, and of any in binary
MAX_QUOTED_CHARS: Final = 200  # of a client's value quoted in a remark
_MAX_REMARK_CHARS: Final = 1000
_LONG_WORD: Final = re.compile(rf"(\S{{{MAX_QUOTED_CHARS}}})\S+")
_FIXED: Final = struct.Struct(">hBhiii")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_ORDINALS: Final = {language.name: language.value for language in LanguageCode}
_NAMES: Final = tuple(language.name for language in LanguageCode)
_OTHER: Final = LanguageCode.OTHER.value


class Command:
    """A request or a response.

    ``language`` is a number of `LanguageCode` (OTHER for unknown names), ``opaque`` a signed 32-bit value that matches
    a response to its request. The values of ``ext`` are strings; null fields are omitted, numbers keep their original
    digits. A decoded ``body`` is bytes, or None if empty; a body to be sent may also be a memoryview, which must not
    change until it is written. ``serialize`` is the header format, JSON or binary.
    """

    __slots__ = ("body", "code", "ext", "flag", "language", "opaque", "remark", "serialize", "version")

    def __init__(
        self,
        code: int,
        *,
        language: int = LanguageCode.PYTHON,
        version: int = CURRENT_VERSION,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: bytes | memoryview | None = None,
        serialize: int = SERIALIZE_JSON,
    ) -> None:
        self.code = code
        self.language = language
        self.version = version
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.ext = ext
        self.body = body
        self.serialize = serialize

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no response."""
        return self.flag & FLAG_ONEWAY != 0

    @property
    def payload(self) -> bytes:
        """The body as bytes, empty without a body."""
        body = self.body
        return body if isinstance(body, bytes) else bytes(body or b"")

    def json_header(self) -> bytes:
        """Return the header in JSON as `encode` writes it. Raises like `encode`."""
        return _encode_json(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Command) and all(getattr(self, k) == getattr(other, k) for k in Command.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = 0 if self.body is None else len(self.body)
        ext = {**self.ext, "SecurityToken": "..."} if self.ext and "SecurityToken" in self.ext else self.ext
        return (
            f"Command({self.code}, opaque={self.opaque}, flag={self.flag}, remark={self.remark!r}, ext={ext!r}, "
            f"body of {size} bytes)"
        )


def request(
    code: int, ext: dict[str, str] | None = None, body: bytes | memoryview | None = None, *, oneway: bool = False
) -> Command:
    """Return a request; its opaque is set when it is sent."""
    return Command(code, flag=FLAG_ONEWAY if oneway else 0, ext=ext, body=body)


def response_to(
    asked: Command,
    code: int = 0,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
    body: bytes | memoryview | None = None,
) -> Command:
    """Return a response to *asked* with the same opaque and header format. A long remark is shortened."""
    if remark is not None and len(remark) > MAX_QUOTED_CHARS:
        remark = _cut(remark, asked.ext)
    return Command(
        code,
        opaque=asked.opaque,
        flag=FLAG_RESPONSE,
        remark=remark,
        ext=ext,
        body=body,
        serialize=asked.serialize,
    )


def _cut(remark: str, ext: Mapping[str, str] | None) -> str:
    """Shorten *remark* to a log line, with at most `MAX_QUOTED_CHARS` of each quoted value."""
    for value in (ext or {}).values():
        if MAX_QUOTED_CHARS < len(value) <= len(remark):
            remark = remark.replace(value, f"{value[:MAX_QUOTED_CHARS]}...")
    if len(remark) > 3 * _MAX_REMARK_CHARS:  # a huge value is near the start; the text after it says what to do
        remark = f"{remark[:_MAX_REMARK_CHARS]}...{remark[-_MAX_REMARK_CHARS:]}"
    remark = _LONG_WORD.sub(r"\1...", remark)
    if len(remark) > _MAX_REMARK_CHARS:
        remark = f"{remark[: _MAX_REMARK_CHARS * 3 // 4]}...{remark[-_MAX_REMARK_CHARS // 4 :]}"
    return remark


class LongFields(dict[str, str]):
    """The extFields of a request with a long header; `Header.from_ext` checks the length of its values."""


def decode(frame: Frame) -> Command:
    """Decode *frame*.

    Raises:
        RemoteProtocolError: the header cannot be decoded; the connection must be closed.
    """
    codec, header, body = frame
    long = len(header) > _LONG_HEADER_BYTES
    if codec == SERIALIZE_JSON:
        if long:
            _check_parts(header)
        try:
            fields = strict_json.loads(header)
        except ValueError as error:
            if long:
                raise RemoteProtocolError(f"a command header of {len(header)} bytes is not strict JSON") from error
            fields = _loads(header, raw_numbers=False)
        try:
            ext = fields.get("extFields")
            if ext:
                "".join(ext.values())  # the fastest check that all are strings
            command = Command.__new__(Command)
            command.code = fields["code"]
            command.language = _ORDINALS[fields["language"]]
            command.version = fields["version"]
            command.opaque = fields["opaque"]
            command.flag = fields["flag"]
            command.remark = fields.get("remark")
            command.ext = ext
            command.body = body
            command.serialize = SERIALIZE_JSON
            plain = _plain(command)
        except (KeyError, TypeError, AttributeError):
            plain = False
        if not plain:
            if long:
                raise RemoteProtocolError(f"a command header of {len(header)} bytes has fields of unexpected types")
            return _decode_odd_json(header, body)
        if long and ext and not command.is_response:  # the response to a batch names all of its messages
            command.ext = LongFields(ext)
        return command
    if codec == SERIALIZE_BINARY:
        command = _decode_binary(header, body)
        if long and command.ext and not command.is_response:
            command.ext = LongFields(command.ext)
        return command
    raise RemoteProtocolError(f"header form {codec} is neither 0 (JSON) nor 1 (ROCKETMQ)")


def _check_parts(header: bytes) -> None:
    """Check the number of fields of a long header before it is parsed. Single values may be long.

    Raises:
        RemoteProtocolError: there are too many fields.
    """
    texts = (header.count(b'"') - header.count(b'\\"')) // 4
    others = header.count(b"[") + header.count(b"{") + header.count(b",") // 16
    if texts > MAX_FIELDS or others > 64 * MAX_FIELDS:
        raise RemoteProtocolError(f"a command header of {len(header)} bytes has more than {MAX_FIELDS} fields")


def encode(command: Command) -> bytes:
    """Return the complete frame.

    Raises:
        LocalProtocolError: an ext value is not a string, the code does not fit the binary format, or the frame is too
            long.
    """
    body = command.body
    if body is None:
        return encode_head(command, 0)
    return b"".join((encode_head(command, len(body)), body))


def encode_head(command: Command, body_length: int) -> bytes:
    """Return length prefix and header of a frame; the caller writes the body of *body_length* bytes.

    ``command.body`` is ignored. Raises like `encode`.
    """
    if command.serialize == SERIALIZE_BINARY:
        header = _encode_binary(command)
    else:
        header = command.json_header()
    length = 4 + len(header) + body_length
    if length + 4 > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is over the limit of {MAX_FRAME_BYTES}")
    return PREFIX.pack(length, command.serialize << 24 | len(header)) + header


# --- JSON -----------------------------------------------------------------------------------------------------------

# Differences of orjson from fastjson: lower-case \u00xx, and unescaped 0x7f..0x9f, U+2028, U+2029.
_DIFFERENT = re.compile(rb"\\.(?:00[0-9a-f]{2})?|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


def _encode_json(command: Command) -> bytes:
    fields: dict[str, Any] = {"code": command.code}
    ext = command.ext
    if ext is not None:
        fields["extFields"] = ext
    language = command.language
    fields["flag"] = command.flag
    fields["language"] = _NAMES[language] if 0 <= language < len(_NAMES) else "OTHER"
    fields["opaque"] = command.opaque
    if command.remark is not None:
        fields["remark"] = command.remark
    fields["serializeTypeCurrentRPC"] = "JSON"
    fields["version"] = command.version
    try:
        if ext:
            "".join(ext.values())
        header = strict_json.dumps(fields)
    except TypeError as error:
        raise _not_text(ext) from error
    return _fastjson(header)


def json_text(text: str) -> bytes:
    """Return *text* as a quoted JSON string of a header.

    Raises:
        LocalProtocolError: it contains half of a surrogate pair.
    """
    try:
        return _fastjson(strict_json.dumps(text))
    except TypeError as error:
        raise _not_text(None) from error


def _fastjson(written: bytes) -> bytes:
    """Convert output of orjson to that of fastjson. They rarely differ, and never for 0x01 and 0x02."""
    if (
        written.isascii()
        and b"\x7f" not in written
        and written.count(b"\\u00") == written.count(b"\\u0001") + written.count(b"\\u0002")
    ):
        return written
    return _DIFFERENT.sub(_as_fastjson, written)


def _as_fastjson(found: re.Match[bytes]) -> bytes:
    text = found.group()
    if text.startswith(b"\\"):
        return b"\\u" + text[2:].upper() if text.startswith(b"\\u") else text
    return b"\\u%04X" % ord(text.decode())


def _not_text(ext: Mapping[str, object] | None) -> LocalProtocolError:
    for name, value in (ext or {}).items():
        if not isinstance(value, str):
            return LocalProtocolError(f"ext field {name} must be text, got {value!r}")
    return LocalProtocolError("a header holds text that is not valid UTF-16")


def _plain(command: Command) -> bool:
    """Return whether numbers and strings have the right types; ``type`` is used as isinstance takes true for an int."""
    remark = command.remark
    return (
        type(command.code) is type(command.version) is type(command.opaque) is type(command.flag) is int
        and -0x80000000 <= command.opaque <= 0x7FFFFFFF
        and (remark is None or type(remark) is str)
        and (command.ext is None or type(command.ext) is dict)
    )


def _loads(header: bytes, *, raw_numbers: bool) -> Any:
    try:
        return loads(header, raw_numbers=raw_numbers)
    except FormatError as error:
        raise RemoteProtocolError(f"command header: {error}") from error


def _decode_odd_json(header: bytes, body: bytes | None) -> Command:
    """Decode a header that Java accepts but does not write. Numbers in ext values keep their exact text."""
    fields = _loads(header, raw_numbers=True)
    if not isinstance(fields, dict):
        raise RemoteProtocolError(f"command header is not a JSON object: {header[:40]!r}")
    ext = fields.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError(f"extFields is not a JSON object: {ext!r:.40}")
    remark = fields.get("remark")
    return Command(
        _number(fields, "code"),
        language=_language(fields.get("language")),
        version=_number(fields, "version"),
        opaque=_number(fields, "opaque"),
        flag=_number(fields, "flag"),
        remark=None if remark is None else _as_text(remark),
        ext=None if ext is None else {str(k): _as_text(v) for k, v in ext.items() if v is not None},
        body=body,
    )


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise RemoteProtocolError(f"command header: {name} must be int32, got {value!r:.40}") from None
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise RemoteProtocolError(f"command header: {name} must be int32, got {number}")
    return number


def _language(value: Any) -> int:
    """Return the code of a language name (in any case) or ordinal; JAVA if missing, Java's default."""
    if value is None:
        return LanguageCode.JAVA
    text = str(value)
    if text.isdecimal():
        return int(text) if len(text) < 3 and int(text) < len(_NAMES) else _OTHER
    return _ORDINALS.get(text.upper(), _OTHER)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return dumps(value).decode()
    except FormatError as error:
        raise RemoteProtocolError(f"command header: {error}") from error


# --- binary ---------------------------------------------------------------------------------------------------------


def _decode_binary(header: bytes, body: bytes | None) -> Command:
    try:
        code, language, version, opaque, flag, size = _FIXED.unpack_from(header)
        at = _FIXED.size
        remark = None
        if size:
            at += size
            remark = _slice(header, at - size, at)
        (size,) = _I32.unpack_from(header, at)
        ext = _decode_entries(header, at + 4, at + 4 + size) if size else None
    except struct.error as error:
        raise RemoteProtocolError(f"binary command header of {len(header)} bytes is cut short") from error
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"binary command header of {len(header)} bytes: a text is not UTF-8") from error
    return Command(
        code,
        language=language if language < len(_NAMES) else _OTHER,
        version=version,
        opaque=opaque,
        flag=flag,
        remark=remark,
        ext=ext,
        body=body,
        serialize=SERIALIZE_BINARY,
    )


def _decode_entries(header: bytes, at: int, end: int) -> dict[str, str]:
    """Decode the ext map. The last value of a repeated name wins; an empty value means null and is omitted."""
    if not at <= end <= len(header):
        raise RemoteProtocolError(f"binary command header of {len(header)} bytes: ext map ends at {end}")
    ext: dict[str, str] = {}
    for _ in range(MAX_FIELDS):
        if at >= end:
            break
        (size,) = _I16.unpack_from(header, at)
        value_at = at + 2 + size
        key = _slice(header, at + 2, value_at)
        (size,) = _I32.unpack_from(header, value_at)
        at = value_at + 4 + size
        value = _slice(header, value_at + 4, at)
        if value:
            ext[key] = value
        else:
            ext.pop(key, None)
    if at < end:
        raise RemoteProtocolError(f"binary command header of {len(header)} bytes: more than {MAX_FIELDS} fields")
    if at != end:
        raise RemoteProtocolError(f"binary command header: the ext map should end at {end}, its entries end at {at}")
    return ext


def _slice(header: bytes, start: int, end: int) -> str:
    if not start <= end <= len(header):
        raise RemoteProtocolError(f"binary command header of {len(header)} bytes: a text of {end - start} at {start}")
    return header[start:end].decode()


def _encode_binary(command: Command) -> bytes:
    remark = (command.remark or "").encode(errors="replace")
    entries: list[bytes] = []
    try:
        for name, value in (command.ext or {}).items():
            key, text = name.encode(errors="replace"), value.encode(errors="replace")
            entries += (_I16.pack(len(key)), key, _I32.pack(len(text)), text)
        ext = b"".join(entries)
        fixed = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    except AttributeError as error:
        raise _not_text(command.ext) from error
    except struct.error as error:
        raise LocalProtocolError(f"code {command.code} does not fit a binary header: {error}") from error
    return b"".join((fixed, remark, _I32.pack(len(ext)), ext))
