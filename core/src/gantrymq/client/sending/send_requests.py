"""Requests of producers: sends, with headers written from templates, and recalls of timed messages.

A single message is sent as request 310, a batch as 320, the reply to a request as 325. Sends of one producer to one
queue usually differ in three header values only, so the rest is encoded once for all of them:

    {"code":310,"extFields":{..,"g":"<born>","h":"0","i":"<properties>",..},..,"opaque":<opaque>,..}

Once code reads the fields of such a request, as the hooks of `rpc_hooks` and the binary format do, it becomes an
ordinary command that is encoded from its fields.

A recall is one request to the broker named in the handle:

    handle = URL-safe Base64 of "v1 <topic> <broker> <time> <unique id>"

Source: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeaderV2.java,
common/.../producer/RecallMessageHandle.java, client/.../impl/MQClientAPIImpl.java
(recallMessage).
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Final, NamedTuple

from gantrymq import speedups
from gantrymq.client.argument_types import check_text
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, refused
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.sending.encoded_message import EncodedMessage
from gantrymq.errors import InvalidParameter
from gantrymq.model import names
from gantrymq.model import properties as property_text
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting import command
from gantrymq.remoting.codes import (
    CURRENT_VERSION,
    FLAG_ONEWAY,
    SERIALIZE_JSON,
    LanguageCode,
    RequestCode,
    ResponseCode,
)
from gantrymq.remoting.command import Command, json_text
from gantrymq.remoting.headers.send import SendMessageRequest, send_fields

_LETTERS: Final = {field.attribute: field.wire for field in send_fields(RequestCode.SEND_MESSAGE_V2)}
_BORN, _PROPERTIES = _LETTERS["born_timestamp"], _LETTERS["properties"]
_PLACES: Final = re.compile(rf'(?<=,"{_BORN}":")0|(?<=,"{_PROPERTIES}":)""|(?<=,"opaque":)0'.encode())
_RECONSUME_TIME = "RECONSUME_TIME"
_MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"


class ProducerFields(NamedTuple):
    """Producer fields that are the same in every send."""

    group: str
    default_topic: str = names.DEFAULT_TOPIC  # template for a topic that does not exist
    default_topic_queues: int = 4
    unit_mode: bool = False


class _Template:
    """Common parts of many sends."""

    __slots__ = ("code", "fields", "flag", "texts")

    def __init__(self, code: int, flag: int, fields: dict[str, str]) -> None:
        """*fields* of the header, with time 0 and empty properties."""
        self.code = code
        self.flag = flag
        self.fields = fields
        header = Command(code, flag=flag, ext=fields).json_header()
        self.texts = tuple(_PLACES.split(header))  # four parts, as quotes inside values are escaped


class SendRequest(Command):
    """A send request. Its code and flag must not be changed."""

    __slots__ = ("_born_ms", "_ext", "_properties", "_template")

    def __init__(self, template: _Template, born_ms: int, properties: dict[str, str], body: bytes) -> None:
        self.code = template.code
        self.language = LanguageCode.PYTHON
        self.version = CURRENT_VERSION
        self.opaque = 0
        self.flag = template.flag
        self.remark = None
        self.body = body
        self.serialize = SERIALIZE_JSON
        self._template = template
        self._born_ms = born_ms
        self._properties = properties
        self._ext: dict[str, str] | None = None

    @property
    def ext(self) -> dict[str, str] | None:  # other commands have a plain attribute
        """The extFields."""
        if self._ext is None:
            properties = property_text.encode_text(self._properties)
            self._ext = {**self._template.fields, _BORN: str(self._born_ms), _PROPERTIES: properties}
        return self._ext

    @ext.setter
    def ext(self, fields: dict[str, str] | None) -> None:
        self._ext = fields

    def json_header(self) -> bytes:
        """Encode the header."""
        if self._ext is not None:  # hooks may have changed it
            return super().json_header()
        header: bytes | None = None
        if _write_plain is not None:
            header = _write_plain(self._template.texts, self._born_ms, self._properties, self.opaque)
        return header or _write(self._template.texts, self._born_ms, self._properties, self.opaque)


def _write(texts: tuple[bytes, ...], born_ms: int, properties: dict[str, str], opaque: int) -> bytes:
    """Encode a header from the *texts* of its template and the values between them."""
    first, second, third, last = texts
    return b"%b%d%b%b%b%d%b" % (
        first,
        born_ms,
        second,
        json_text(property_text.encode_text(properties)),
        third,
        opaque,
        last,
    )


_write_plain = (
    None if speedups.compiled is None else speedups.compiled.write_send_header
)  # returns None for values that need escaping


def send_request(
    encoded: EncodedMessage, queue: MessageQueue, producer: ProducerFields, born_ms: int, *, oneway: bool = False
) -> SendRequest:
    """Return the request that sends *encoded* to *queue*.

    Args:
        encoded: from `prepare` or `prepare_batch`.
        queue: destination; the request also names its broker.
        producer: its fields.
        born_ms: wall time of this attempt.
        oneway: the broker sends no response.
    """
    properties = encoded.properties
    reconsume_times, most_reconsume_times = 0, None
    if encoded.topic.startswith(names.RETRY_PREFIX):
        properties = dict(properties)
        reconsume_times = _count(properties.pop(_RECONSUME_TIME, "")) or 0
        most_reconsume_times = _count(properties.pop(_MAX_RECONSUME_TIMES, ""))
    template = _template(
        producer,
        encoded.topic,
        queue,
        encoded.sys_flag,
        encoded.flag,
        encoded.batch,
        reconsume_times,
        most_reconsume_times,
        properties.get(property_text.MSG_TYPE) == property_text.REPLY_TYPE,
        oneway,
    )
    return SendRequest(template, born_ms, properties, encoded.body)


@lru_cache(4096, typed=True)
def _template(
    producer: ProducerFields,
    topic: str,
    queue: MessageQueue,
    sys_flag: int,
    flag: int,
    batch: bool,
    reconsume_times: int,
    most_reconsume_times: int | None,
    is_reply: bool,
    oneway: bool,
) -> _Template:
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    if is_reply:
        code = RequestCode.SEND_REPLY_MESSAGE_V2
    header = SendMessageRequest(
        producer_group=producer.group,
        topic=topic,
        default_topic=producer.default_topic,
        default_topic_queue_nums=producer.default_topic_queues,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp=0,
        flag=flag,
        properties="",
        reconsume_times=reconsume_times,
        unit_mode=producer.unit_mode,
        max_reconsume_times=most_reconsume_times,
        batch=batch,
        bname=queue.broker_name,
    )
    return _Template(code, FLAG_ONEWAY if oneway else 0, header.to_ext_v2())


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


_VERSION: Final = "v1"
_PARTS: Final = 5


async def recall(instance: ClientInstance, group: str, topic: str, handle: str) -> str:
    """Recall a timed message, see `gantrymq.client.Producer.recall`."""
    broker_name = _broker_of(handle)
    address = await instance.routes.find_broker(topic, broker_name)
    fields = {"producerGroup": group, "topic": topic, "recallHandle": handle, "bname": broker_name}
    reply = await instance.rpc.send(address, command.request(RequestCode.RECALL_MESSAGE, fields), CALL_TIMEOUT_S)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, address, RequestCode.RECALL_MESSAGE)
    return (reply.ext or {}).get("msgId", "")


def _broker_of(handle: str) -> str:
    check_text("handle", handle)
    try:
        parts = base64.urlsafe_b64decode(handle).decode().split(" ")
    except (binascii.Error, ValueError):
        parts = []
    if len(parts) < _PARTS or parts[0] != _VERSION:
        raise InvalidParameter(f"{handle!r} is not a recall handle; a timed send returns one")
    return parts[2]
