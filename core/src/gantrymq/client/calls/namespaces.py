"""Namespaces: separate topics and groups of several applications in one cluster. No I/O.

    in the program        on the servers            unchanged
    Orders                NS%Orders                 topics and groups that every broker has, CID_RMQ_SYS_*,
    billing               NS%billing                <cluster>_REPLY_TOPIC, names that already begin with NS%
    %RETRY%billing        %RETRY%NS%billing
    %DLQ%billing          %DLQ%NS%billing

The program uses its own names, servers use names with the namespace. It is added when a request is sent and removed
when a response, a message or a broker's request is read; no other code knows of it. Cluster-wide admin lists (topics,
groups) keep the server names.

With namespaces v2 (`RpcHooks`) names are unchanged; every request contains the namespace.

Sources: apache/rocketmq remoting/.../protocol/NamespaceUtil.java, client/.../impl/producer/DefaultMQProducerImpl.java
(sendKernelImpl: INSTANCE_ID), common/.../utils/NameServerAddressUtils.java.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gantrymq.errors import InvalidParameter
from gantrymq.model import properties
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUPS, is_system_group, is_system_topic
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ENDPOINT: Final = re.compile(r"(?:http://)?(MQ_INST_\w+_\w+)\.")
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"
_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX)
_PLACES: Final = 4096  # names per direction whose translation is cached

# --- fields and bodies that contain names -----------------------------------------------------------------------

_NAMED: Final = ("topic", "originTopic", "group", "consumerGroup", "producerGroup", "srcGroup", "destGroup")
_NAMED_V2: Final = ("a", "b", "c")  # producer group, topic, template topic for a new topic
_V2: Final = frozenset({RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2})
_IN_PROPERTIES: Final = (
    properties.PRODUCER_GROUP,
    properties.RETRY_TOPIC,
)  # message properties whose values are server names
_INSTANCE_ID: Final = "INSTANCE_ID"

_JSON_NAME: Final = re.compile(rb'"(topic|group|groupName|consumerGroup|producerGroup)":"([^"\\]+)"')
_JSON_ACK: Final = re.compile(rb'"([ct])":"([^"\\]+)"')  # consumer group and topic of acknowledgements in a batch
_JSON_BODIES: Final = frozenset(
    {
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.BATCH_ACK_MESSAGE,
    }
)
_JSON_ANSWERS: Final = frozenset(  # responses about the topic or group in the request
    {
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    }
)


class Namespace:
    """Translates the names of one namespace."""

    def __init__(self, name: str) -> None:
        """Raises InvalidParameter: *name* is not 1 to 64 letters, digits, ``_`` and ``-``."""
        if not _LEGAL.match(name):
            raise InvalidParameter(f"the namespace {name!r} is not 1 to 64 letters, digits, _ and -")
        self.name = name
        self._mark = name + "%"
        self._texts = [
            (f'"{prefix}{self._mark}'.encode(), f'"{prefix}'.encode()) for prefix in ("", *_PREFIXES)
        ]  # in JSON
        self.wrap = lru_cache(_PLACES)(self._wrap)
        self.unwrap = lru_cache(_PLACES)(self._unwrap)

    def _wrap(self, name: str) -> str:
        """Return the name of a topic or group as servers know it."""
        prefix, own = _parted(name)
        if not own or own.startswith(self._mark) or is_system_topic(name):
            return name
        if is_system_group(name) or name in SYSTEM_GROUPS:
            return name
        return name if name.endswith(_REPLY_SUFFIX) else prefix + self._mark + own

    def _unwrap(self, name: str) -> str:
        """Return the name of a topic or group as the program knows it; names of other namespaces are unchanged."""
        prefix, own = _parted(name)
        return prefix + own[len(self._mark) :] if own.startswith(self._mark) else name

    def wrap_request(self, request: Command) -> None:
        """Add the namespace to the names in an outgoing request."""
        ext = request.ext
        if ext:
            if request.code in _V2:
                self._send_leaving(ext)
            for field in _NAMED:
                if field in ext:
                    ext[field] = self.wrap(ext[field])
        if request.body and request.code in _JSON_BODIES:
            pattern = _JSON_ACK if request.code == RequestCode.BATCH_ACK_MESSAGE else _JSON_NAME
            request.body = self._json_wrapped(request.payload, pattern)

    def unwrap_response(self, code: int, answer: Command) -> None:
        """Remove the namespace from the names in the response to a request *code*."""
        if answer.body and code in _JSON_ANSWERS:
            answer.body = self._json_unwrapped(answer.payload)

    def unwrap_request(self, request: Command) -> None:
        """Remove the namespace from the names in a broker's request; records in its body are unchanged."""
        ext = request.ext or {}
        for field in _NAMED:
            if field in ext:
                ext[field] = self.unwrap(ext[field])
        if request.body and request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            request.body = self._json_unwrapped(request.payload)

    def wrap_response(self, answer: Command) -> None:
        """Add the namespace to the names in our response to a broker."""
        if answer.body:
            answer.body = self._json_wrapped(answer.payload)

    def _send_leaving(self, ext: dict[str, str]) -> None:
        for field in _NAMED_V2:
            if field in ext:
                ext[field] = self.wrap(ext[field])
        given = ext.get("i", "")
        if any(name in given for name in _IN_PROPERTIES):
            found = properties.decode_text(given)
            found.update({name: self.wrap(found[name]) for name in _IN_PROPERTIES if name in found})
            given = properties.encode_text(found)
        ext["i"] = given + properties.encode_text({_INSTANCE_ID: self.name})

    def _json_wrapped(self, text: bytes, pattern: re.Pattern[bytes] = _JSON_NAME) -> bytes:
        def wrapped(found: re.Match[bytes]) -> bytes:
            return b'"%b":"%b"' % (found[1], self.wrap(found[2].decode()).encode())

        return pattern.sub(wrapped, text)

    def _json_unwrapped(self, text: bytes) -> bytes:
        for marked, plain in self._texts:
            text = text.replace(marked, plain)
        return text


def namespace_of_endpoint(namesrv: str | None) -> str | None:
    """Return the namespace in the address of a cloud instance: MQ_INST_1_2 for ``MQ_INST_1_2.host:80``."""
    found = _ENDPOINT.match((namesrv or "").strip())
    return found[1] if found else None


def _parted(name: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
