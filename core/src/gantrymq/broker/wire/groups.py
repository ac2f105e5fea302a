"""Group administration: 200, 225 (create), 201, 352 (read), 207 (delete), 353 (forbid).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ITEMS_TOGETHER, ok, page, with_json
from gantrymq.errors import FormatError, GroupNotExist, InvalidParameter
from gantrymq.loose_json import Entries
from gantrymq.model.access import Action, Requirement, requirements
from gantrymq.model.group import GroupConfig
from gantrymq.model.json_members import objects_in, text_in
from gantrymq.remoting.bodies import object_body_of
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetAllSubscriptionGroupConfigRequest,
    GetSubscriptionGroupConfigRequest,
    UpdateGroupForbiddenRequest,
)
from gantrymq.remoting.serving import serves
from gantrymq.world.clock import TimeSlices


def _changed_groups(asked: Command) -> Sequence[Requirement]:
    """Access rule of 200 and 225: the groups in the body."""
    body = object_body_of(asked)
    several = asked.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    configs = objects_in(body, "groupConfigList") if several else [body]
    return requirements(Action.UPDATE, groups=[text_in(each, "groupName", "") for each in configs])


class GroupRequests:
    """Handlers for the group table."""

    def __init__(self, parts: Parts) -> None:
        self._check_role = parts.roles.check_tables
        self._groups = parts.groups
        self._clock = parts.world.clock
        self._sliced = parts.sliced_responses.make
        self._state = parts.state
        self._delete = parts.delete_group

    @serves(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, access=_changed_groups)
    async def create(self, asked: Command, connection: Connection) -> Command:
        """200: create or change one group."""
        self._check_role()
        self._groups.update([_group(object_body_of(asked))])
        await self._state.saved()
        return ok(asked)

    @serves(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, access=_changed_groups)
    async def create_many(self, asked: Command, connection: Connection) -> Command:
        """225: create or change several; all are checked before the first is applied."""
        self._check_role()
        groups, slices = [], TimeSlices(self._clock, ITEMS_TOGETHER)
        checked: dict[str, GroupConfig] = {}
        for each in objects_in(object_body_of(asked), "groupConfigList"):
            groups.append(group := _group(each))
            checked[group.name] = self._groups.check(group, checked)
            await slices.item_done()
        for group in groups:
            self._groups.update([group])
            await slices.item_done()
        await self._state.saved()
        return ok(asked)

    @serves(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, action=Action.GET)
    async def all_configs(self, asked: Command, connection: Connection) -> Command:
        """201: return all groups, or a page of them."""
        header = GetAllSubscriptionGroupConfigRequest.from_ext(asked.ext)
        listed: Iterable[str] = self._groups.view
        ext = None
        if header.group_seq is not None:
            listed, total = page(
                listed, header.group_seq, header.max_group_num, header.data_version, self._groups.version
            )
            ext = {"totalGroupNum": str(total)}
        groups = sorted(listed)
        body = {
            "dataVersion": self._groups.version.to_json(),
            "forbiddenTable": Entries(self._forbidden(groups)),
            "subscriptionGroupTable": Entries(self._configs(groups)),
        }
        return await self._sliced(asked, connection, body, ext)

    def _forbidden(self, groups: Sequence[str]) -> Iterator[tuple[str, dict[str, int]]]:
        for group in groups:
            topics = self._groups.forbidden.get(group)
            if topics is not None:
                yield group, topics

    def _configs(self, groups: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over *groups*, except for those deleted meanwhile."""
        for group in groups:
            config = self._groups.view.get(group)
            if config is not None:
                yield group, config.to_json()

    @serves(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, action=Action.GET, group="group")
    def config(self, asked: Command, connection: Connection) -> Command:
        """352: return one group."""
        name = GetSubscriptionGroupConfigRequest.from_ext(asked.ext).group
        group = self._groups.get(name)
        if group is None:
            raise GroupNotExist(f"No group in this broker: {name}")
        return with_json(asked, group.to_json())

    @serves(RequestCode.DELETE_SUBSCRIPTIONGROUP, action=Action.DELETE, group="groupName")
    async def delete(self, asked: Command, connection: Connection) -> Command:
        """207: delete a group, on request with its offsets and retry topics."""
        self._check_role()
        header = DeleteSubscriptionGroupRequest.from_ext(asked.ext)
        await self._delete(header.group_name, clean_offsets=header.clean_offset)
        return ok(asked)

    @serves(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, action=Action.UPDATE, topic="topic", group="group")
    async def forbid(self, asked: Command, connection: Connection) -> Command:
        """353: allow or forbid a group to read a topic, if requested; return whether it may."""
        header = UpdateGroupForbiddenRequest.from_ext(asked.ext)
        if header.readable is not None:
            self._check_role()
            self._groups.set_readable(header.group, header.topic, readable=header.readable)
            await self._state.saved()
        readable = self._groups.may_read(header.group, header.topic)
        return with_json(asked, {"group": header.group, "readable": readable, "topic": header.topic})


def _group(members: Any) -> GroupConfig:
    if not isinstance(members, dict) or not members.get("groupName"):
        raise InvalidParameter(f"a group was expected as an object with groupName, got {str(members)[:200]}")
    try:
        return GroupConfig.from_json(members)
    except FormatError as error:
        raise InvalidParameter(f"group {members['groupName']}: {error}") from error
