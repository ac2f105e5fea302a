"""Consumer groups at brokers: settings and subscriptions.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gantrymq.client.admin.clusters import ClusterCalls
from gantrymq.client.admin.errors import RequestNotServed, parsing
from gantrymq.client.argument_types import check_kind
from gantrymq.errors import GroupNotExist
from gantrymq.loose_json import dumps
from gantrymq.model import names
from gantrymq.model.group import GroupConfig
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetSubscriptionGroupConfigRequest,
    QuerySubscriptionByConsumerRequest,
    UpdateGroupForbiddenRequest,
)
from gantrymq.remoting.headers.topics import QueryTopicsByConsumerRequest

FORBID_READ: Final = 1 << 2  # of a topic in forbiddenTable


class GroupCalls(ClusterCalls):
    """Part of `Admin`. Unless stated otherwise, calls raise BrokerRefused with the broker's code, or ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    async def groups(self, address: str) -> dict[str, GroupConfig]:
        """Return every group that one broker knows, sorted by name, system groups included."""
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        return await self.request_parsed(address, code, _configs, what=f"the groups of {address}")

    async def group_config(self, address: str, group: str) -> GroupConfig:
        """Return the settings of a group at one broker; from a broker before 5.0, all groups are fetched.

        Raises:
            GroupNotExist: the broker does not know the group. A Java broker that creates groups automatically creates
                it.
        """
        header = GetSubscriptionGroupConfigRequest(group=group)
        try:
            found = await self.request_json(
                address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header, what="group settings"
            )
        except RequestNotServed:
            found_here = (await self.groups(address)).get(group)
            if found_here is None:
                raise GroupNotExist(f"broker {address} knows no group {group}") from None
            return found_here
        with parsing(f"the settings of group {group} at {address}"):
            return GroupConfig.from_json(found)

    async def create_group(self, address: str, config: GroupConfig) -> None:
        """Create or change a group at one broker. Raises InvalidParameter if the name is not legal."""
        check_kind("config", config, GroupConfig)
        names.check_group(config.name)
        body = dumps(config.to_json(), sort=True)
        await self.request(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def create_group_in(self, config: GroupConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a group at every master of a cluster; return their addresses.

        Raises:
            as `masters`: the cluster is not clear.
            as `create_group`: all other errors; earlier masters have the group.
        """
        check_kind("config", config, GroupConfig)
        names.check_group(config.name)
        masters = await self.masters(cluster)
        for master in masters:
            await self.create_group(master, config)
        return masters

    async def delete_group(self, address: str, group: str, *, clean_offsets: bool = False) -> None:
        """Delete a group at one broker, with *clean_offsets* also its offsets; a missing group is not an error."""
        header = DeleteSubscriptionGroupRequest(group_name=group, clean_offset=clean_offsets)
        await self.request(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def unreadable_topics(self, address: str) -> dict[str, tuple[str, ...]]:
        """Return the topics that groups must not read at one broker, sorted, by group; see `set_topic_readable`.

        RocketMQ 4 has no such table: nothing is forbidden there.
        """
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        return await self.request_parsed(address, code, _unreadable, what=f"the groups of {address}")

    async def set_topic_readable(self, address: str, group: str, topic: str, *, readable: bool) -> None:
        """Allow or forbid a group to read a topic at one broker; a forbidden one gets code 16 for its pulls.

        Source: apache/rocketmq broker/.../subscription/SubscriptionGroupManager.java (updateForbidden).
        """
        header = UpdateGroupForbiddenRequest(group=group, topic=topic, readable=readable)
        await self.request(address, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)

    async def topics_of_group(self, address: str, group: str) -> tuple[str, ...]:
        """Return the topics that a group subscribes to or has offsets for at one broker, sorted.

        Includes its retry topic.
        """
        header = QueryTopicsByConsumerRequest(group=group)
        found = await self.request_json(address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header, what="topics")
        return tuple(sorted({str(topic) for topic in found.get("topicList") or ()}))

    async def subscription(self, address: str, group: str, topic: str) -> Subscription | None:
        """Return the subscription to a topic of a group's online members, or None without one."""
        header = QuerySubscriptionByConsumerRequest(group=group, topic=topic)
        found = await self.request_json(
            address, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header, what="subscription"
        )
        with parsing(f"the subscription of group {group} at {address}"):
            data = found.get("subscriptionData")
            return None if data is None else Subscription.from_json(data, group)


def _configs(members: Mapping[Any, Any]) -> dict[str, GroupConfig]:
    table = members.get("subscriptionGroupTable") or {}
    return {str(name): GroupConfig.from_json(table[name], str(name)) for name in sorted(table)}


def _unreadable(members: Mapping[Any, Any]) -> dict[str, tuple[str, ...]]:
    table = members.get("forbiddenTable") or {}
    found = {
        str(group): tuple(sorted(str(topic) for topic, bits in topics.items() if int(bits) & FORBID_READ))
        for group, topics in sorted(table.items())
    }
    return {group: topics for group, topics in found.items() if topics}
