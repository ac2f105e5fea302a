"""Clusters known to name servers: brokers, masters, write permission of brokers.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from gantrymq.client.admin.errors import ClusterUnclear
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.client.calls.rpc import reply_header
from gantrymq.client.routing.routes import BrokerAddresses, ClusterInfo, parse_clusters
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.nameserver import (
    AddWritePermOfBrokerResponse,
    WipeWritePermOfBrokerResponse,
    WritePermOfBrokerRequest,
)


class ClusterCalls(AdminRequests):
    """Part of `Admin`."""

    async def clusters(self, server: str | None = None) -> ClusterInfo:
        """Return clusters and brokers.

        Args:
            server: address of a name server; None for any.

        Raises:
            ConnectFailed: no name server answers.
            BrokerRefused: the name server refuses.
        """
        return parse_clusters(
            (await self._request_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, server)).payload
        )

    async def brokers(self, cluster: str | None = None) -> tuple[BrokerAddresses, ...]:
        """Return the brokers of *cluster*, or of the only cluster, sorted by name; some may have no master now.

        Raises:
            ClusterUnclear: no such cluster, or several and none named.
            as `clusters`: all other errors.
        """
        info = await self.clusters()
        known = ", ".join(info.clusters) or "none"
        if cluster is None:
            if len(info.clusters) != 1:
                raise ClusterUnclear(f"name a cluster, as there is not exactly one; clusters known: {known}")
            cluster = next(iter(info.clusters))
        if cluster not in info.clusters:
            raise ClusterUnclear(f"no cluster is named {cluster}; clusters known: {known}")
        return tuple(each for each in info.brokers if each.name in info.clusters[cluster])

    async def masters(self, cluster: str | None = None) -> tuple[str, ...]:
        """Return the addresses of the masters of *cluster*, or of the only cluster, sorted by broker name.

        Raises:
            ClusterUnclear: no such cluster, several and none named, or no master in it.
            as `clusters`: all other errors.
        """
        brokers = await self.brokers(cluster)
        masters = tuple(each.master for each in brokers if each.master is not None)
        if not masters:
            name = cluster or next((each.cluster for each in brokers), "")
            if slaves := [address for each in brokers for address in each.addresses.values()]:
                raise ClusterUnclear(
                    f"cluster {name} has no master now, only slaves ({', '.join(slaves)}); start a master, or let a "
                    "slave take over"
                )
            raise ClusterUnclear(f"cluster {name} has no master; start its brokers first")
        return masters

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Stop producers from sending to a broker; lasts until the broker registers again with changed topics.

        Returns:
            The number of changed topics by address of the name server.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a name server failed; earlier ones have changed.
        """
        header, code = WritePermOfBrokerRequest(broker_name=broker_name), RequestCode.WIPE_WRITE_PERM_OF_BROKER
        return {
            server: reply_header(
                WipeWritePermOfBrokerResponse, await self.request(server, code, header), server
            ).wipe_topic_count
            for server in self.name_servers
        }

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`: every topic of the broker may be read and written.

        Returns and raises as `wipe_write_permission`.
        """
        header, code = WritePermOfBrokerRequest(broker_name=broker_name), RequestCode.ADD_WRITE_PERM_OF_BROKER
        return {
            server: reply_header(
                AddWritePermOfBrokerResponse, await self.request(server, code, header), server
            ).add_topic_count
            for server in self.name_servers
        }
