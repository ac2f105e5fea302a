"""Calls are not typed here; the Python versions of the functions are."""

from typing import Any, Final

INTERFACE: Final[int]

class FrameCutter:
    def __new__(cls, frame: type[Any], /) -> FrameCutter: ...
    def __call__(self, *args: Any) -> Any: ...

class CommandReader:
    def __new__(
        cls,
        send: type[Any],
        command: type[Any],
        spellings: tuple[tuple[int, bytes, bytes, bytes], ...],
        languages: dict[bytes, int],
        longest: int,
        /,
    ) -> CommandReader: ...
    def __call__(self, *args: Any) -> Any: ...

class MessageMaker:
    def __new__(cls, send: type[Any], message: type[Any], is_signed: Any, /) -> MessageMaker: ...
    def __call__(self, *args: Any) -> Any: ...

class RecordEncoder:
    def __new__(
        cls,
        message: type[Any],
        queue: type[Any],
        entry: type[Any],
        result: type[Any],
        ok: Any,
        crc32: Any,
        most_properties: int,
        odd_flags: int,
        /,
    ) -> RecordEncoder: ...
    def __call__(self, *args: Any) -> Any: ...

class AnswerWriter:
    def __new__(cls, send: type[Any], texts: tuple[bytes, ...], oneway: int, /) -> AnswerWriter: ...
    def __call__(self, *args: Any) -> Any: ...

class EntryReader:
    def __new__(cls, entry: type[Any], texts: tuple[bytes, ...], magic: int, odd_flags: int, /) -> EntryReader: ...
    def __call__(self, *args: Any) -> Any: ...

class MessageReader:
    def __new__(
        cls,
        message: type[Any],
        read_rest: Any,
        tag_mark: bytes,
        magic_v1: int,
        magic_v2: int,
        odd_flags: int,
        born_host_flag: int,
        store_host_flag: int,
        /,
    ) -> MessageReader: ...
    def __call__(self, *args: Any) -> Any: ...

def hash_entries(*args: Any) -> Any: ...
def put_entries(*args: Any) -> Any: ...
def decode_properties(text: Any, /) -> dict[str, str]: ...
def write_send_header(texts: Any, born_ms: int, properties: Any, opaque: int, /) -> bytes | None: ...
def read_signed(header: bytes, body: bytes | None, is_old: bool, /) -> tuple[str, bytes] | None: ...
def fill_header(header: Any, fields: Any, ext: Any, /) -> bool: ...
