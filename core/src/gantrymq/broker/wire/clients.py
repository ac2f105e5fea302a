"""Heartbeats, unregistration, consumer lists, subscription checks and queue locks: 34, 35, 38, 41, 42, 46; notice 40.

Source: apache/rocketmq broker/.../processor/ClientManageProcessor.java, ConsumerManageProcessor.java,
AdminBrokerProcessor.java (lockBatchMQ, unlockBatchMQ), client/DefaultConsumerIdsChangeListener.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ok
from gantrymq.errors import RequestRefused
from gantrymq.interfaces import ClientChannel, ConsumerHeartbeat, Heartbeat
from gantrymq.loose_json import Items, dumps_ascii
from gantrymq.model.access import Action, Requirement, requirements
from gantrymq.model.json_members import flag_in, number_in, object_in, objects_in, text_in
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.bodies import members_of, object_body_of
from gantrymq.remoting.codes import LanguageCode, RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.clients import (
    GetConsumerListByGroupRequest,
    UnregisterClientRequest,
)
from gantrymq.remoting.serving import in_operation, serves

MAX_SAID: Final = 5000  # consumer groups plus subscriptions of a heartbeat
MAX_KEPT_BYTES: Final = 2048  # of the body of a heartbeat that is kept to recognize its repetition
_LAST_HEARTBEAT: Final = "last heartbeat"  # key of the connection's notes, while it is open
_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


def enum_name(value: Any, choices: tuple[str, ...], default: str) -> str:
    """Return an enum member's name. C++ sends ordinals, others send names in any case; unknown ones give *default*."""
    if isinstance(value, int) and not isinstance(value, bool):
        return choices[value] if 0 <= value < len(choices) else default
    text = str(value or "").upper()
    return text if text in choices else default


def language_name(code: int) -> str:
    """Return RocketMQ's name of a language."""
    return LanguageCode(code).name if code in LanguageCode._value2member_map_ else LanguageCode.OTHER.name


def _consumer(data: dict[str, Any], without_subscriptions: bool) -> ConsumerHeartbeat:
    """Parse one consumer group of a heartbeat. Subscriptions are always parsed, so that invalid ones are refused."""
    group = text_in(data, "groupName", "")
    wanted = objects_in(data, "subscriptionDataSet")
    with members_of(f"subscriptionDataSet of group {group}"):
        subscriptions = [Subscription.from_json(each, group) for each in wanted]
    return ConsumerHeartbeat(
        group,
        enum_name(data.get("consumeType"), _CONSUME_TYPES, "CONSUME_PASSIVELY"),
        enum_name(data.get("messageModel"), _MESSAGE_MODELS, "CLUSTERING"),
        enum_name(data.get("consumeFromWhere"), _FROM_WHERE, _FROM_WHERE[0]),
        flag_in(data, "unitMode", False),
        None if without_subscriptions else subscriptions,
    )


def _queues_of(asked: Command) -> tuple[str, str, list[MessageQueue]]:
    """Parse group, client id and queues of a lock or unlock request."""
    body = object_body_of(asked)
    queues = [MessageQueue.from_json(each) for each in objects_in(body, "mqSet")]
    return text_in(body, "consumerGroup", ""), text_in(body, "clientId", ""), queues


class _KeptHeartbeat(NamedTuple):
    """The last heartbeat of a connection."""

    body: bytes
    language: int
    heartbeat: Heartbeat


def _repeated(asked: Command, connection: Connection) -> Heartbeat | None:
    """Return the last heartbeat of the connection if *asked* repeats it: a client sends the same one every 30 s."""
    kept: _KeptHeartbeat | None = connection.notes.get(_LAST_HEARTBEAT)
    if kept is None or kept.body != asked.body or kept.language != asked.language:
        return None
    same = kept.heartbeat.version == asked.version and kept.heartbeat.principal == connection.principal
    return kept.heartbeat if same else None


def _forget_heartbeat(connection: ClientChannel) -> None:
    connection.notes.pop(_LAST_HEARTBEAT, None)


def _user_of(connection: Connection) -> str:
    return "" if connection.principal is None else connection.principal.name


def _left_group(asked: Command) -> Sequence[Requirement]:
    """Access rule of 35; a producer leaves without one."""
    group = (asked.ext or {}).get("consumerGroup")
    return requirements(Action.SUB, groups=(group,)) if group else ()


def _locked_queues(asked: Command) -> Sequence[Requirement]:
    """Access rule of 41 and 42."""
    group, _, queues = _queues_of(asked)
    return requirements(Action.SUB, topics=sorted({each.topic for each in queues}), groups=(group,))


class ClientRequests:
    """Handlers for requests of clients about themselves."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._groups = parts.groups
        self._clients = parts.clients
        self._filters = parts.filters
        self._locks = parts.locks
        self._sliced = parts.sliced_responses.make
        parts.clients.on_group_changed(self._tell_members)
        parts.clients.on_gone(_forget_heartbeat)

    @serves(RequestCode.HEART_BEAT, access=in_operation)
    def heartbeat(self, asked: Command, connection: Connection) -> Command:
        """34: register a client in its groups with its subscriptions."""
        heartbeat = _repeated(asked, connection) or self._read_heartbeat(asked, connection)
        changed = self._clients.heartbeat(heartbeat, connection)
        return ok(asked, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if changed else "false"})

    def _read_heartbeat(self, asked: Command, connection: Connection) -> Heartbeat:
        body = object_body_of(asked)
        client_id = text_in(body, "clientID", "")
        fingerprint = number_in(body, "heartbeatFingerprint", 0)
        without_subscriptions = flag_in(body, "withoutSub", False) or flag_in(body, "isWithoutSub", False)
        groups = objects_in(body, "consumerDataSet")
        said = len(groups) + sum(len(objects_in(data, "subscriptionDataSet")) for data in groups)
        if said > MAX_SAID:
            raise RequestRefused(1, f"a heartbeat of {said} groups and subscriptions, at most {MAX_SAID} are allowed")
        consumers = [_consumer(data, without_subscriptions) for data in groups]
        producers = [text_in(data, "groupName", "") for data in objects_in(body, "producerDataSet")]
        language, principal = language_name(asked.language), connection.principal
        heartbeat = Heartbeat(client_id, language, asked.version, producers, consumers, fingerprint, principal)
        if len(asked.payload) <= MAX_KEPT_BYTES:
            connection.notes[_LAST_HEARTBEAT] = _KeptHeartbeat(asked.payload, asked.language, heartbeat)
        return heartbeat

    @serves(RequestCode.UNREGISTER_CLIENT, access=_left_group)
    def unregister(self, asked: Command, connection: Connection) -> Command:
        """35: remove a client from its groups."""
        header = UnregisterClientRequest.from_ext(asked.ext)
        self._clients.unregister(connection, header.producer_group, header.consumer_group)
        return ok(asked, {})

    @serves(RequestCode.GET_CONSUMER_LIST_BY_GROUP, action=(Action.SUB, Action.GET), group="consumerGroup")
    def consumer_list(self, asked: Command, connection: Connection) -> Command:
        """38: return the client ids of a group; code 1 if no member is online."""
        header = GetConsumerListByGroupRequest.from_ext(asked.ext)
        online = self._clients.consumer_group(header.consumer_group)
        if online is None or not online.members:
            raise RequestRefused(1, f"no consumer for this group, {header.consumer_group}")
        return ok(asked, {}, dumps_ascii({"consumerIdList": online.client_ids()}))

    @serves(RequestCode.CHECK_CLIENT_CONFIG, access=in_operation)
    def check_config(self, asked: Command, connection: Connection) -> Command:
        """46: check that a subscription expression compiles."""
        body = object_body_of(asked)
        data = object_in(body, "subscriptionData")
        if data is not None:
            with members_of("subscriptionData"):
                subscription = Subscription.from_json(data, text_in(body, "group", ""))
            self._filters.compiled(subscription)
        return ok(asked)

    @serves(RequestCode.LOCK_BATCH_MQ, access=_locked_queues)
    async def lock(self, asked: Command, connection: Connection) -> Command:
        """41: lock queues for an ordered consumer."""
        locked = self._locks.lock(*_queues_of(asked), user=_user_of(connection))
        granted = Items(queue.to_json() for queue in locked)
        return await self._sliced(asked, connection, {"lockOKMQSet": granted})

    @serves(RequestCode.UNLOCK_BATCH_MQ, access=_locked_queues)
    def unlock(self, asked: Command, connection: Connection) -> Command:
        """42: release queues."""
        self._locks.unlock(*_queues_of(asked), user=_user_of(connection))
        return ok(asked)

    def _tell_members(self, group: str) -> None:
        """Notify all members of a changed group."""
        config = self._groups.get(group)
        wanted = self._settings.flag("notifyConsumerIdsChangedEnable") and (config is None or config.notify_ids_changed)
        if not wanted or self._clients.broadcasts(group):
            return
        for member in self._clients.consumers(group):
            member.connection.members_changed(group)
