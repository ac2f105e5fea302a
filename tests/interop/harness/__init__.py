"""Start real RocketMQ clients and servers, and ours, as processes of a test.

| class | runs |
|---|---|
| JavaNameServer, JavaBroker, JavaProxy | servers of Apache RocketMQ, from Maven Central |
| GantryServer | `gantrymq start`, `nameserver` or `broker` |
| GantryCluster | two name servers and two brokers of ours |
| Driver | our driver program for the official Java client, `java/client` |
| MqAdmin | the official admin tool, and clients for it to inspect, `java/tools` |
| JavaFilters | the SQL92 filter of a Java broker, without the broker, `java/filter` |
| GoDriver | our driver program for `rocketmq-client-go`, `go` |
| NodeDriver | our driver program for `ali-ons`, `node` |
| sdks.SdkProgram | our programs for the SDKs for gRPC, `java/sdk`, `python`, `go/sdk`, `node/sdk` |

All processes listen on loopback, write below a folder given by the test, and are stopped by process id.
"""

from harness.cluster import GantryCluster
from harness.driver import Driver
from harness.filters import JavaFilters
from harness.gantry_server import GantryServer, gantrymq
from harness.go_driver import GoDriver
from harness.java_servers import JavaBroker, JavaNameServer, JavaProxy
from harness.mqadmin import MqAdmin
from harness.node_driver import NodeDriver
from harness.ports import free_port
from harness.probe import create_group, create_topic, route_of, wait_for_route
from harness.process import Process
from harness.tools import require

__all__ = [
    "Driver",
    "GantryCluster",
    "GantryServer",
    "GoDriver",
    "JavaBroker",
    "JavaFilters",
    "JavaNameServer",
    "JavaProxy",
    "MqAdmin",
    "NodeDriver",
    "Process",
    "create_group",
    "create_topic",
    "free_port",
    "gantrymq",
    "require",
    "route_of",
    "wait_for_route",
]
