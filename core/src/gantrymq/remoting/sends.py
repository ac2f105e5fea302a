"""Decoding of incoming commands, with a fast path for send requests.

The headers of one producer's send requests mostly differ in four values: queue id, born timestamp, opaque and the
unique id in the properties, and in the signature if there is one. A `SendCommand` has the four as attributes, and the
rest of its header as one comparable value (`SendCommand.alike`):

    {"code":310,"extFields":{..,"e":"<queue id>",..,"g":"<born>",..,"i":"..UNIQ_KEY\\u0001<id>\\u0002..",..},..
     "opaque":<number>,..}

The result of checking one send request therefore holds for every other one with an equal rest.

A request becomes a `SendCommand` if it has code 310 or 10, a JSON header and plain values: numbers without leading
zeros, an id of letters and digits, a signature in base64. All other commands, send requests with unusual values
included, are returned as `decode` returns them. A `SendCommand` has all attributes of a `Command`.

Source of the names: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeader{,V2}.java.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gantrymq import speedups, strict_json
from gantrymq.model.access import is_signature
from gantrymq.remoting.codes import SERIALIZE_JSON, LanguageCode, RequestCode
from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import Frame
from gantrymq.remoting.signatures import SIGNATURE, UNIQUE_QUERY_UNSIGNED, SignedRequest

MAX_HEADER_BYTES: Final = 4096  # a longer one is decoded as a plain `Command`, to limit the size of caches

_NAMES: Final = {  # field names of queue id, born timestamp and properties
    int(RequestCode.SEND_MESSAGE_V2): ("e", "g", "i"),
    int(RequestCode.SEND_MESSAGE): ("queueId", "bornTimestamp", "properties"),
}
SEND_CODES: Final = frozenset(_NAMES)
_ID_MARK: Final = "UNIQ_KEY\x01"
_PAIR_END: Final = "\x02"
_QUEUE_IDS: Final = {str(number): number for number in range(1024)}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_BORN: Final = re.compile(r"0|[1-9][0-9]{0,17}")


class SendCommand(Command):
    """A send request.

    ``queue_id`` is 0 to 1023, ``born_timestamp`` in ms and not negative, ``unique_id`` ASCII letters and digits.
    ``alike`` represents the rest of the header: two requests with equal ``alike`` differ only in these values, opaque,
    signature and body. Equivalent headers may have different ``alike`` values, for instance with another order of the
    fields. ``header`` is the header as received.
    """

    __slots__ = ("_ext", "alike", "born_timestamp", "header", "queue_id", "unique_id")

    def __init__(
        self, command: Command, header: bytes, alike: bytes, queue_id: int, born_timestamp: int, unique_id: bytes
    ) -> None:
        self.code = command.code
        self.language = command.language
        self.version = command.version
        self.opaque = command.opaque
        self.flag = command.flag
        self.remark = command.remark
        self.body = command.body
        self.serialize = command.serialize
        self._ext: dict[str, str] | None = command.ext
        self.header = header
        self.alike = alike
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.unique_id = unique_id

    @property
    def ext(self) -> dict[str, str] | None:  # a plain attribute in the base class
        """The extFields, as decoded by `decode`."""
        if self._ext is None:
            self._ext = decode(Frame(SERIALIZE_JSON, self.header, None)).ext
        return self._ext

    @ext.setter
    def ext(self, fields: dict[str, str] | None) -> None:
        self._ext = fields


def _read(frame: Frame) -> Command:
    """Decode *frame*.

    Raises:
        RemoteProtocolError: the header cannot be read.
    """
    command = decode(frame)
    names, ext = _NAMES.get(command.code), command.ext
    if names is None or ext is None or frame.codec != SERIALIZE_JSON or len(frame.header) > MAX_HEADER_BYTES:
        return command
    queue_name, born_name, properties_name = names
    queue_id = _QUEUE_IDS.get(ext.get(queue_name, ""))
    born = ext.get(born_name, "")
    before, _, rest = ext.get(properties_name, "").partition(_ID_MARK)
    unique_id, _, after = rest.partition(_PAIR_END)
    signature = ext.get(SIGNATURE)
    if signature is not None and _BASE64.fullmatch(signature) is None:
        return command
    if queue_id is None or _BORN.fullmatch(born) is None or not (unique_id.isalnum() and unique_id.isascii()):
        return command
    others = {**ext, queue_name: "", born_name: before, properties_name: after}  # blanked at the original positions
    if signature is not None:
        others[SIGNATURE] = ""
    try:
        alike = strict_json.dumps(
            [command.code, command.language, command.version, command.flag, command.remark, others]
        )
    except TypeError:  # half of a surrogate pair, or a number of more than 64 bits
        return command
    return SendCommand(command, frame.header, alike, queue_id, int(born), unique_id.encode())


_read_signed = None if speedups.compiled is None else speedups.compiled.read_signed  # None for unusual spelling


def is_signed(send: SendCommand, secrets: Sequence[bytes]) -> bool:
    """Return whether a send request is signed with one of *secrets*."""
    if _read_signed is not None:
        signed = _read_signed(send.header, send.body, send.version <= UNIQUE_QUERY_UNSIGNED)
        if signed is not None:
            signature, content = signed
            return is_signature(signature, content, secrets)
    credentials = SignedRequest(send)
    return is_signature(credentials.signature, credentials.signed_content(), secrets)


_read_plain = (
    None
    if speedups.compiled is None
    else speedups.compiled.CommandReader(
        SendCommand,
        Command,
        tuple((code, *(name.encode() for name in names)) for code, names in _NAMES.items()),
        {language.name.encode(): language.value for language in LanguageCode},
        MAX_HEADER_BYTES,
    )
)  # appends commands up to the first frame with unusual spelling


def decode_all(frames: list[Frame], commands: list[Command]) -> None:
    """Decode *frames* and append the commands to the empty list *commands*.

    Raises:
        RemoteProtocolError: a header cannot be read; the commands before it are in the list.
    """
    while len(commands) < len(frames):
        if _read_plain is not None:
            _read_plain(frames, len(commands), commands)
            if len(commands) == len(frames):
                break
        commands.append(_read(frames[len(commands)]))
