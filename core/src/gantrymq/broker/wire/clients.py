"""Heartbeats, leaving, consumer lists, subscription checks and queue locks: 34, 35, 38, 41, 42, 46; notice 40.

Source: apache/rocketmq broker/.../processor/ClientManageProcessor.java, ConsumerManageProcessor.java,
AdminBrokerProcessor.java (lockBatchMQ, unlockBatchMQ), client/DefaultConsumerIdsChangeListener.java.
"""

from __future__ import annotations

from typing import Any, Final

from gantrymq.broker.consuming.filters import Filters
from gantrymq.broker.tables.clients import BROADCASTING, ClientTable, ConsumerGroup, Member
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.locks import QueueLocks
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.broker.wire.answers import (
    object_body_of,
    objects_in,
    ok,
    queue_from,
    queue_json,
    reading,
    with_json,
)
from gantrymq.config import Settings
from gantrymq.errors import RefusedWith
from gantrymq.interfaces import Connection, Handler
from gantrymq.model import names
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting.codes import LanguageCode, RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.clients import (
    GetConsumerListByGroupRequest,
    NotifyConsumerIdsChangedRequest,
    UnregisterClientRequest,
)
from gantrymq.world import Clock

MAX_GROUPS: Final = 1000  # of a connection, of each kind; a client has a few, and RocketMQ has no bound
MAX_GROUP_LENGTH: Final = 10_000  # characters; RocketMQ's clients allow 255, its broker has no bound

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
    """An enum as a name: C++ sends ordinals, others names in any case; what nobody knows becomes *default*."""
    if isinstance(value, int) and not isinstance(value, bool):
        return choices[value] if 0 <= value < len(choices) else default
    text = str(value or "").upper()
    return text if text in choices else default


def language_name(code: int) -> str:
    """A language as RocketMQ names it."""
    return LanguageCode(code).name if code in LanguageCode._value2member_map_ else LanguageCode.OTHER.name


def _subscriptions(data: dict[str, Any]) -> list[Subscription]:
    """What one consumer group of a heartbeat subscribes to."""
    group = str(data.get("groupName") or "")
    wanted = objects_in(data, "subscriptionDataSet")
    with reading(f"subscriptionDataSet of group {group}"):
        return [Subscription.from_json(each, group) for each in wanted]


class ClientRequests:
    """Serves what clients say of themselves."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        filters: Filters,
        locks: QueueLocks,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._filters = filters
        self._locks = locks
        clients.on_change(self._tell_members)

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def heartbeat(self, asked: Command, connection: Connection) -> Command:
        """34: who is there, in which groups, with which subscriptions."""
        body = object_body_of(asked)
        client_id = str(body.get("clientID") or "")
        with reading("heartbeatFingerprint"):
            fingerprint = int(body.get("heartbeatFingerprint") or 0)
        consumers = [
            (str(data.get("groupName") or ""), data, _subscriptions(data))
            for data in objects_in(body, "consumerDataSet")
        ]
        producers = [str(data.get("groupName") or "") for data in objects_in(body, "producerDataSet")]
        self._check_count(connection, producers, [group for group, _, _ in consumers])
        without_subscriptions = bool(body.get("withoutSub") or body.get("isWithoutSub"))
        member = Member(connection, client_id, language_name(asked.language), asked.version, self._clock.now_ms())
        changed = fingerprint == 0
        for group, data, subscriptions in consumers:
            config = self._groups.find(group)
            if config is None:
                continue
            self._topics.create_retry(
                names.retry_topic(group), config.retry_queues, unit=bool(data.get("unitMode") or False)
            )
            online = self._clients.consumer_group(group)
            if fingerprint and (online is None or online.fingerprint != fingerprint):
                changed = True
            self._clients.register_consumer(
                group,
                member,
                consume_type=enum_name(data.get("consumeType"), _CONSUME_TYPES, "CONSUME_PASSIVELY"),
                message_model=enum_name(data.get("messageModel"), _MESSAGE_MODELS, "CLUSTERING"),
                consume_from_where=enum_name(data.get("consumeFromWhere"), _FROM_WHERE, _FROM_WHERE[0]),
                subscriptions=None if without_subscriptions else subscriptions,
            )
            online = self._clients.consumer_group(group)
            if online is not None and not without_subscriptions:
                online.fingerprint = fingerprint
        for group in producers:
            self._clients.register_producer(group, member)
        return ok(asked, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if changed else "false"})

    def _check_count(self, connection: Connection, producers: list[str], consumers: list[str]) -> None:
        """Refuse a connection that would be in more groups than any client has.

        Raises:
            RefusedWith: code 1; it joins none of them.
        """
        in_producers, in_consumers = self._clients.groups_of(connection)
        for what, wanted, known in (("producer", producers, in_producers), ("consumer", consumers, in_consumers)):
            count = len(known | set(wanted))
            if count > MAX_GROUPS:
                raise RefusedWith(1, f"a connection may be in {MAX_GROUPS} {what} groups, this one wants {count}")
            longest = max(map(len, wanted), default=0)
            if longest > MAX_GROUP_LENGTH:
                raise RefusedWith(
                    1, f"a {what} group's name has {longest} characters, at most {MAX_GROUP_LENGTH} may be"
                )

    def unregister(self, asked: Command, connection: Connection) -> Command:
        """35: a client leaves."""
        header = UnregisterClientRequest.from_ext(asked.ext)
        self._clients.unregister(connection, header.producer_group, header.consumer_group)
        return ok(asked, {})

    def consumer_list(self, asked: Command, connection: Connection) -> Command:
        """38: the client ids of a group; code 1 when nobody is online."""
        header = GetConsumerListByGroupRequest.from_ext(asked.ext)
        online = self._clients.consumer_group(header.consumer_group)
        if online is None or not online.members:
            raise RefusedWith(1, f"no consumer for this group, {header.consumer_group}")
        return with_json(asked, {"consumerIdList": online.client_ids()}, {})

    def check_config(self, asked: Command, connection: Connection) -> Command:
        """46: does an expression compile here?"""
        body = object_body_of(asked)
        data = body.get("subscriptionData")
        if isinstance(data, dict):
            with reading("subscriptionData"):
                subscription = Subscription.from_json(data, str(body.get("group") or ""))
            if subscription.type != TAG and not self._settings.flag("enablePropertyFilter"):
                raise RefusedWith(
                    1,
                    f"The broker does not support consumer to filter message by {subscription.type} "
                    "(enablePropertyFilter=false)",
                )
            self._filters.compiled(subscription)
        return ok(asked)

    def lock(self, asked: Command, connection: Connection) -> Command:
        """41: lock queues for an ordered consumer."""
        body = object_body_of(asked)
        granted = self._locks.lock(
            str(body.get("consumerGroup") or ""),
            str(body.get("clientId") or ""),
            [queue_from(each) for each in objects_in(body, "mqSet")],
        )
        return with_json(asked, {"lockOKMQSet": [queue_json(queue) for queue in granted]})

    def unlock(self, asked: Command, connection: Connection) -> Command:
        """42: give queues up."""
        body = object_body_of(asked)
        self._locks.unlock(
            str(body.get("consumerGroup") or ""),
            str(body.get("clientId") or ""),
            [queue_from(each) for each in objects_in(body, "mqSet")],
        )
        return ok(asked)

    def _tell_members(self, group: ConsumerGroup) -> None:
        """40, oneway, to every member of a group that changed."""
        config = self._groups.known(group.name)
        wanted = self._settings.flag("notifyConsumerIdsChangedEnable") and (config is None or config.notify_ids_changed)
        if not wanted or group.message_model == BROADCASTING:
            return
        for connection in list(group.members):
            notice = request(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                NotifyConsumerIdsChangedRequest(consumer_group=group.name).to_ext(),
                oneway=True,
            )
            connection.oneway(notice)
