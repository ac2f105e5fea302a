"""Clusters as name servers know them: brokers, masters, whether a broker is written to.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from gantrymq.client.admin.errors import ClusterUnclear
from gantrymq.client.admin.headers import (
    AddWritePermResponse,
    WipeWritePermResponse,
    WritePermRequest,
)
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.client.routes import ClusterInfo, parse_clusters
from gantrymq.client.rpc import reply_header
from gantrymq.remoting.codes import RequestCode

__all__ = ["ClusterCalls"]


class ClusterCalls(AdminRequests):
    """Of `Admin`."""

    async def clusters(self, server: str | None = None) -> ClusterInfo:
        """Clusters and brokers.

        Args:
            server: address of the name server to ask; None for any.

        Raises:
            ConnectFailed: no name server answers.
            BrokerRefused: it does not tell.
        """
        return parse_clusters(
            (await self._request_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, server)).payload
        )

    async def masters(self, cluster: str | None = None) -> tuple[str, ...]:
        """Addresses of the masters of *cluster*, or of the only cluster there is, in the order of their names.

        Raises:
            ClusterUnclear: no such cluster, several without one named, or no master in it.
            as `clusters`: otherwise.
        """
        info = await self.clusters()
        known = ", ".join(info.clusters) or "none"
        if cluster is None:
            if len(info.clusters) != 1:
                raise ClusterUnclear(f"name a cluster, as there is not exactly one; clusters known: {known}")
            cluster = next(iter(info.clusters))
        if cluster not in info.clusters:
            raise ClusterUnclear(f"no cluster is named {cluster}; clusters known: {known}")
        masters = info.masters(cluster)
        if not masters:
            raise ClusterUnclear(f"cluster {cluster} has no master; start its brokers first")
        return masters

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Let no producer be led to a broker; lasts until the broker registers again with changed topics.

        Returns:
            Address of each name server to how many topics changed there.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a name server does not do it; those
                before it did.
        """
        header, code = WritePermRequest(broker_name=broker_name), RequestCode.WIPE_WRITE_PERM_OF_BROKER
        return {
            server: reply_header(
                WipeWritePermResponse, await self.request(server, code, header), server
            ).wipe_topic_count
            for server in self.name_servers
        }

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`: every topic of the broker may be read and written. Returns and raises as it."""
        header, code = WritePermRequest(broker_name=broker_name), RequestCode.ADD_WRITE_PERM_OF_BROKER
        return {
            server: reply_header(AddWritePermResponse, await self.request(server, code, header), server).add_topic_count
            for server in self.name_servers
        }
