"""Controllers of Apache RocketMQ 5.3.3, and brokers that they elect, each in a process of its own."""

from harness.jars import keep_server_archive, server_archive
from harness.java_servers import BOOT_S, JAVA_ONLY, SMALL_STORE, _java, _write_conf
from harness.peers import serves
from harness.ports import free_port
from harness.process import Process

VERSION = "5.3.3"
CONTROLLER = "controller.ControllerStartup"
HEAP = ("-Xms64m", "-Xmx160m", "-XX:TieredStopAtLevel=1")


class JavaController(Process):
    """`ControllerStartup`; it can be killed and another one started on its folder."""

    leaves_something = False

    def __init__(self, scratch, number, peers, hosts=(), **settings):
        """*hosts*: where each controller runs, with `address` and `under`; all on the loopback address without them."""
        addresses = [each.address for each in hosts] or ["127.0.0.1"] * len(peers)
        self.address = f"{addresses[number]}:{peers[number]}"
        self.again = lambda: JavaController(scratch, number, peers, hosts, **settings)
        conf = _write_conf(
            scratch,
            f"controller{number}.conf",
            {
                "controllerDLegerGroup": "group1",
                "controllerDLegerPeers": ";".join(
                    f"n{each}-{addresses[each]}:{port}" for each, port in enumerate(peers)
                ),
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": str(scratch / f"store{number}"),
                "configStorePath": str(scratch / f"controller{number}.properties"),
                "mappedFileSize": "1048576",
                **settings,
            },
        )
        command = _java(VERSION, scratch, HEAP, CONTROLLER, conf)
        super().__init__(f"controller{number}", [*(hosts[number].under if hosts else ()), *command], scratch)
        serves(f"RocketMQ controller {VERSION}", self.alive)

    def __exit__(self, kind, error, trace):
        """Keep an archive of its classes for later controllers, which start with a third less CPU time, and stop it."""
        if kind is None and self.alive():
            keep_server_archive(self.pid, server_archive(VERSION, CONTROLLER))
        super().__exit__(kind, error, trace)


def start_controllers(running, scratch, count, hosts=()):
    """Start *count* controllers with DLedger; return them. *hosts*: see JavaController."""
    ports = [free_port() for _ in range(count)]
    return [running(JavaController(scratch, number, ports, hosts)) for number in range(count)]


def start_jraft_controllers(running, scratch, count):
    """Start *count* controllers with jRaft; return them."""
    ports, rafts = ([free_port() for _ in range(count)] for _ in "12")
    settings = {
        "controllerType": "jRaft",
        "jRaftGroupId": "group1",
        "jRaftInitConf": ",".join(f"127.0.0.1:{port}" for port in rafts),
        "jRaftControllerRPCAddr": ",".join(f"127.0.0.1:{port}" for port in ports),
    }
    return [
        running(
            JavaController(
                scratch / str(number),
                number,
                ports,
                **settings,
                jRaftServerId=f"127.0.0.1:{rafts[number]}",
                listenPort=str(ports[number]),
            )
        )
        for number in range(count)
    ]


class ElectedJavaBroker(Process):
    """`BrokerStartup` in controller mode; it may be a slave, and have no topic, when the constructor returns."""

    leaves_something = False

    def __init__(self, scratch, store, namesrv, controllers, ports, **more):
        """*ports*: for clients and for the HA protocol; *more*: settings."""
        self.address, self.ha_address = (f"127.0.0.1:{port}" for port in ports)
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": str(ports[0]),
            "haListenPort": str(ports[1]),
            "namesrvAddr": namesrv,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            "enableControllerMode": "true",
            "controllerAddr": ";".join(each.address for each in controllers),
            "syncBrokerMetadataPeriod": "1000",
            "haSendHeartbeatInterval": "1000",  # a slave reports after this silence, not after 5 s
            **SMALL_STORE,
            **JAVA_ONLY,
            **more,
        }
        heap = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:TieredStopAtLevel=1")
        command = _java(VERSION, scratch, heap, "broker.BrokerStartup", _write_conf(scratch, "broker.conf", settings))
        super().__init__("java-broker", command, scratch)
        serves(f"RocketMQ broker {VERSION}", self.alive)
        self.wait_for_start(lambda p: "boot success" in p.output, "boot success", BOOT_S)
