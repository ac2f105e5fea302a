"""Administration of consumer groups, and of a broker's settings.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from typing import Any

import attrs

from gantrymq.client.admin import Admin
from gantrymq.errors import BrokerRefused, FormatError, InvalidParameter
from gantrymq.loose_json import dumps, loads, object_key
from gantrymq.model import names
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.admin import CleanRequest
from gantrymq.remoting.headers.clients import GetConsumerConnectionListRequest
from gantrymq.remoting.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
)
from gantrymq.settings_file import parse_properties

__all__ = ["CLEANINGS", "BrokerAdmin", "GroupAdmin", "GroupClient", "GroupClients", "QueueProgress"]

CLEANINGS = {
    "log": RequestCode.DELETE_EXPIRED_COMMITLOG,
    "queues": RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    "topics": RequestCode.CLEAN_UNUSED_TOPIC,
}
"""What a broker can be asked to clean: expired log files, expired queues, queues of unknown topics."""


@attrs.frozen
class GroupClient:
    """One connection of a consumer group."""

    client_id: str
    address: str  # host:port as the broker sees it
    language: str
    version: int  # of the protocol


@attrs.frozen
class GroupClients:
    """Who of a group is connected to one broker, and what the group reads."""

    clients: tuple[GroupClient, ...]
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]  # sorted by topic


@attrs.frozen
class QueueProgress:
    """How far a group is in one queue; queue offsets."""

    max_offset: int
    committed: int  # 0 without a commit
    pulled: int  # at least *committed*
    last_stored_ms: int  # store time of the last message consumed, 0 without one

    @property
    def behind(self) -> int:
        """Messages that are not consumed yet; 0 where an older broker let the group commit more than there is."""
        return max(0, self.max_offset - self.committed)


class GroupAdmin:
    """Asks brokers about consumer groups.

    Every call raises BrokerRefused with the broker's code, or ConnectFailed, ConnectionLost, CallTimeout without an
    answer.
    """

    def __init__(self, admin: Admin) -> None:
        """*admin*: started; it stays its owner's."""
        self._admin = admin

    async def configs(self, address: str) -> dict[str, GroupConfig]:
        """Every group that a broker knows, sorted by name."""
        members = _members(await self._admin.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), "groups")
        table = members.get("subscriptionGroupTable") or {}
        return {str(name): GroupConfig.from_json(table[name], str(name)) for name in sorted(table)}

    async def create(self, address: str, config: GroupConfig) -> None:
        """Create a group, or change one, at one broker. Raises InvalidParameter: the name is not legal."""
        names.check_group(config.name)
        await self._admin.ask(
            address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps(config.to_json(), sort=True)
        )

    async def delete(self, address: str, group: str, *, clean_offsets: bool) -> None:
        """Forget a group at one broker, and what it committed when *clean_offsets*."""
        header = DeleteSubscriptionGroupRequest(group_name=group, clean_offset=clean_offsets)
        await self._admin.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def clients(self, address: str, group: str) -> GroupClients | None:
        """Who of *group* is connected to one broker; None when nobody is."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        try:
            reply = await self._admin.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        except BrokerRefused as problem:
            if problem.response_code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        return _clients(_members(reply, "connections"), group)

    async def progress(self, address: str, group: str) -> dict[MessageQueue, QueueProgress]:
        """How far *group* is in the queues of one broker, for every topic it committed offsets for; sorted."""
        header = GetConsumeStatsRequest(consumer_group=group)
        members = _members(await self._admin.ask(address, RequestCode.GET_CONSUME_STATS, header), "consume stats")
        found: dict[MessageQueue, QueueProgress] = {}
        try:
            for key, stats in (members.get("offsetTable") or {}).items():
                queue = object_key(key)
                found[MessageQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))] = (
                    QueueProgress(
                        int(stats["brokerOffset"]),
                        int(stats["consumerOffset"]),
                        int(stats.get("pullOffset") or stats["consumerOffset"]),  # 4.9 has none
                        int(stats.get("lastTimestamp") or 0),
                    )
                )
        except (KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"consume stats of {address} have members of the wrong kind: {problem!r}") from problem
        return dict(sorted(found.items()))

    async def late(self, address: str, group: str, topic: str) -> dict[MessageQueue, int]:
        """How long ago the next message of each queue was stored, ms; 0 where the group has everything."""
        header = QueryConsumeTimeSpanRequest(topic=topic, group=group)
        members = _members(await self._admin.ask(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header), "time span")
        try:
            return {
                MessageQueue(topic, str(each["messageQueue"]["brokerName"]), int(each["messageQueue"]["queueId"])): max(
                    0, int(each.get("delayTime") or 0)
                )
                for each in members.get("consumeTimeSpanSet") or ()
            }
        except (KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"the time spans of {address} have members of the wrong kind: {problem!r}") from problem


class BrokerAdmin:
    """Asks one broker for its settings, or to change some, or to clean up. Errors as of `GroupAdmin`."""

    def __init__(self, admin: Admin, address: str) -> None:
        """*address*: ip:port of the broker."""
        self._admin = admin
        self._address = address

    async def settings(self) -> dict[str, str]:
        """Every setting as text, sorted by key."""
        reply = await self._admin.ask(self._address, RequestCode.GET_BROKER_CONFIG)
        lines = parse_properties(bytes(reply.payload).decode(errors="replace"), f"the settings of {self._address}")
        return dict(sorted((line.key, line.value) for line in lines))

    async def change(self, settings: dict[str, str]) -> None:
        """Change settings while the broker runs.

        Raises:
            InvalidParameter: a key or value spans lines.
            BrokerRefused: code 16, a key is black-listed; 1, it cannot change now or the value does not fit.
        """
        for key, value in settings.items():
            if "\n" in key + value or "\r" in key + value:
                raise InvalidParameter(f"{key}: a setting is one line")
        text = "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())
        await self._admin.ask(self._address, RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())

    async def clean(self, what: str) -> str:
        """Have one of `CLEANINGS` done; returns what the broker says of it, empty for one of Java's."""
        reply = await self._admin.ask(self._address, CLEANINGS[what], CleanRequest(report=True))
        return reply.remark or ""


def _clients(members: dict[Any, Any], group: str) -> GroupClients:
    try:
        clients = [
            GroupClient(
                str(each.get("clientId") or ""),
                str(each.get("clientAddr") or ""),
                str(each.get("language") or ""),
                int(each.get("version") or 0),
            )
            for each in members.get("connectionSet") or ()
        ]
        wanted = [Subscription.from_json(each, group) for each in (members.get("subscriptionTable") or {}).values()]
    except (AttributeError, TypeError, ValueError) as problem:
        raise FormatError(f"the connections of group {group} have members of the wrong kind: {problem!r}") from problem
    return GroupClients(
        tuple(sorted(clients, key=lambda client: (client.client_id, client.address))),
        str(members.get("consumeType") or ""),
        str(members.get("messageModel") or ""),
        str(members.get("consumeFromWhere") or ""),
        tuple(sorted(wanted, key=lambda each: each.topic)),
    )


def _members(reply: Command, what: str) -> dict[Any, Any]:
    data = loads(reply.payload or b"{}")
    if not isinstance(data, dict):
        raise FormatError(f"the {what} reply is no JSON object: {bytes(reply.payload[:40])!r}")
    return data
