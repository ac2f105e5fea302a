"""Changes of a consumer group at all brokers: its settings, and its deletion. One group or many use these."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gantrymq.errors import GroupNotExist
from gantrymq.plugin.model import GroupConfig
from gantrymq_admin.asking import Asking
from gantrymq_console.data import group as one_group
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.group import GroupReports
from gantrymq_console.data.groups import forget_groups, is_system
from gantrymq_console.web.pages import BadInput, NotFound


async def reports_of(cluster: Cluster, asking: Asking, group: str) -> GroupReports:
    """Return the reports of brokers about a group. Raises NotFound."""
    try:
        return await one_group.group_reports(cluster, asking, group)
    except GroupNotExist:
        raise NotFound("groups.none_there", group=group) from None


async def reports_to_change(cluster: Cluster, group: str) -> tuple[GroupReports, tuple[str, ...]]:
    """Return the reports about a group, which must not be a system group, and the missing brokers.

    Raises:
        NotFound, BadInput: there is no such group, or it is a system group, or a registered broker does not answer, or
            none has it while one is gone.
    """
    if is_system(group):
        raise BadInput("groups.system_stays", group=group)
    asking = Asking(cluster.world.clock)
    reports = await reports_of(cluster, asking, group)
    silent, gone = [each.what for each in asking.missing], await cluster.gone()
    if silent and (not reports.brokers or any(each not in gone for each in silent)):
        raise BadInput("groups.not_all_answer", brokers=", ".join(silent))
    return reports, tuple(silent)


async def change_settings(
    cluster: Cluster, group: str, wanted: Callable[[GroupConfig], GroupConfig]
) -> tuple[str, ...]:
    """Change the settings of a group at each broker that has them; return the brokers that this does not reach.

    Raises:
        as `reports_to_change`, and ClientError.
    """
    (reports, gone), masters = await reports_to_change(cluster, group), await cluster.masters()
    for broker, part in reports.brokers.items():
        if part.config is not None and broker in masters:
            config = attrs.evolve(wanted(part.config), attributes={})  # no value changes
            await cluster.admin.create_group(masters[broker], config)
    await forget_groups(cluster, group)
    return gone


async def delete(cluster: Cluster, group: str, *, clean_offsets: bool) -> tuple[str, ...]:
    """Delete a group; return the brokers that this does not reach. Raises as `change_settings`."""
    masters = await cluster.masters()
    reports, gone = await reports_to_change(cluster, group)
    for broker in reports.brokers.keys() & masters.keys():
        await cluster.admin.delete_group(masters[broker], group, clean_offsets=clean_offsets)
    await forget_groups(cluster, group)
    return gone
