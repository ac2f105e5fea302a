"""The body of a broker registration, in its three forms.

    plain       {"filterServerList":[..],"topicConfigSerializeWrapper":{"dataVersion":..,"topicConfigTable":..,..}}
    old         the wrapper alone, from brokers before 3.0.11, without filter servers
    compressed  one zlib stream of blocks, each | length int32 | bytes |, with counts before the lists:
                | data version JSON | topic count int32 | topic text .. | filter servers JSON
                | mapping count int32 | mapping JSON .. |      mappings only from brokers of 5.0.0 on
    topic text  name, read queues, write queues, perm, filter type, attributes JSON, separated by single spaces

The compressed form has neither order nor sysFlag, and loses attributes with a space in their JSON. Sizes and counts
come from the sender, so each is bounded: a small frame must not keep the name server busy for seconds.

Source: apache/rocketmq remoting/.../protocol/body/RegisterBrokerBody.java, common/.../TopicConfig.java (encode,
decode), namesrv/.../processor/DefaultRequestProcessor.java (checksum, extractRegisterTopicConfigFromRequest).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

from gantrymq.errors import FormatError, RequestError
from gantrymq.plugin.loose_json import COUNT, ReadBudget, int_keys, loads, loads_strict, number_in, texts_in
from gantrymq.plugin.model import DataVersion, TopicConfig
from gantrymq.plugin.remoting import MAX_FRAME_BYTES, VERSION_3_0_11, VERSION_5_0_0
from gantrymq_nameserver.registration import RegistrationBody
from gantrymq_nameserver.tables import Mapping

MAX_INFLATED_BYTES: Final = MAX_FRAME_BYTES  # a compressed body holds no more than a plain one can; 200 B a topic
MAX_ENTRIES: Final = 100_000  # topics, and mappings, of one broker; RocketMQ advises some 10,000 topics at most

_I32 = struct.Struct(">i")


def read_registration_body(body: bytes, *, crc32: int, compressed: bool, version: int) -> RegistrationBody:
    """Check and parse the body of request 103; an empty one has no topics and data version 0/0/0.

    Args:
        crc32: from the header: CRC32 of *body* in 31 bits, 0 to skip the check.
        compressed: from the header.
        version: the sender's version number.
    Raises:
        RequestError: the checksum differs, or the body cannot be read.
    """
    if crc32 and crc32 != zlib.crc32(body) & 0x7FFFFFFF:
        raise RequestError(
            f"crc32 not match: the registration body has {zlib.crc32(body) & 0x7FFFFFFF}, its header says {crc32}"
        )
    is_old = version < VERSION_3_0_11
    if not body:
        return RegistrationBody(filter_servers=None if is_old else [])
    try:
        if is_old:
            return _read_wrapper(_object(loads(body)), None)
        if compressed:
            return _read_compressed(body, with_mappings=version >= VERSION_5_0_0)
        members = _object(loads(body))
        servers = list(texts_in(members, "filterServerList"))
        return _read_wrapper(_object(members.get("topicConfigSerializeWrapper")), servers)
    except (FormatError, ValueError, OverflowError, TypeError, AttributeError, struct.error, zlib.error) as error:
        why = error if isinstance(error, FormatError) else "it is damaged, or not written by a broker"
        raise RequestError(f"decode of a registration body of {len(body)} bytes failed: {why}") from error


def _read_wrapper(wrapper: dict[str, Any], servers: list[str] | None) -> RegistrationBody:
    table = _bounded(_object(wrapper.get("topicConfigTable")), "topics")
    topics = [TopicConfig.from_json(_object(members), name) for name, members in table.items()]
    mappings = _bounded(_object(wrapper.get("topicQueueMappingInfoMap")), "mappings")
    return RegistrationBody(
        topics={topic.name: topic for topic in topics},
        version=DataVersion.from_json(wrapper.get("dataVersion")),
        mappings={topic: _mapping(_object(info)) for topic, info in mappings.items()},
        filter_servers=servers,
    )


def _mapping(members: dict[str, Any]) -> Mapping:
    """Return mapping info with integer queue ids; otherwise as the broker sent it."""
    ids = members.get("currIdMap")
    return members if ids is None else {**members, "currIdMap": int_keys(ids)}


def _object(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"expected a JSON object, got {value!r:.40}")
    return value


def _bounded(table: dict[str, Any], what: str) -> dict[str, Any]:
    _check_count(len(table), what)
    return table


def _check_count(count: int, what: str) -> None:
    if not 0 <= count <= MAX_ENTRIES:
        raise FormatError(f"it holds {count} {what}, a name server reads up to {MAX_ENTRIES}")


# --- compressed -----------------------------------------------------------------------------------------------------


def _read_compressed(body: bytes, *, with_mappings: bool) -> RegistrationBody:
    blocks, budget = _Blocks(_inflate(body)), ReadBudget()
    version = DataVersion.from_json(_object(loads_strict(blocks.block(), budget)))
    topics = [_topic_of_text(blocks.block().decode(), budget) for _ in range(blocks.count("topics"))]
    servers = list(texts_in({"filterServerList": loads_strict(blocks.block(), budget)}, "filterServerList"))
    mappings = []
    if with_mappings:
        mappings = [_mapping(_object(loads_strict(blocks.block(), budget))) for _ in range(blocks.count("mappings"))]
    return RegistrationBody(
        topics={topic.name: topic for topic in topics if topic is not None},
        version=version,
        mappings={str(mapping.get("topic")): mapping for mapping in mappings},
        filter_servers=servers,
    )


def _inflate(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    inflated = stream.decompress(body, MAX_INFLATED_BYTES)
    if not stream.eof:
        raise FormatError(f"the zlib stream is cut short or holds more than {MAX_INFLATED_BYTES} bytes")
    return inflated


class _Blocks:
    """Reader of length-prefixed blocks."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        (value,) = _I32.unpack_from(self._data, self._at)
        self._at += 4
        return int(value)

    def count(self, what: str) -> int:
        """Read the number of following blocks."""
        value = self.number()
        _check_count(value, what)
        return value

    def block(self) -> bytes:
        size, start = self.number(), self._at
        if not 0 <= size <= len(self._data) - start:
            raise FormatError(f"a block of {size} bytes at {start} of {len(self._data)}")
        self._at = start + size
        return self._data[start : self._at]


def _topic_of_text(text: str, budget: ReadBudget) -> TopicConfig | None:
    """Parse one topic line; None for a line with fewer than five words, which RocketMQ skips.

    Raises:
        FormatError: the line is empty, which no broker sends; RocketMQ skips it.
        ValueError: a number is malformed or out of bounds.
    """
    if not text:
        raise FormatError("a topic line is empty")
    words = text.split(" ")
    if len(words) < 5:
        return None
    attributes: dict[str, Any] = {}
    if len(words) > 5:
        try:
            attributes = _object(loads_strict(words[5], budget))
        except FormatError:
            attributes = {}  # cut at a space; the topic itself is complete
    return TopicConfig(
        name=words[0],
        read_queues=number_in({"readQueueNums": words[1]}, "readQueueNums", bounds=COUNT),
        write_queues=number_in({"writeQueueNums": words[2]}, "writeQueueNums", bounds=COUNT),
        perm=number_in({"perm": words[3]}, "perm", bounds=COUNT),
        filter_type=words[4],
        attributes={str(key): str(value) for key, value in attributes.items()},
    )
