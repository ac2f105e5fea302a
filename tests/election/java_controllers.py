"""Controllers of Apache RocketMQ 5.3.3, each in a process of its own."""

from harness.java_servers import _java, _write_conf
from harness.ports import free_port
from harness.process import Process

VERSION = "5.3.3"
HEAP = ("-Xms64m", "-Xmx160m", "-XX:TieredStopAtLevel=1")


class JavaController(Process):
    """`ControllerStartup` with DLedger; it can be killed and another one started on its folder."""

    leaves_something = False

    def __init__(self, scratch, number, peers, **settings):
        self.address = f"127.0.0.1:{peers[number]}"
        self.again = lambda: JavaController(scratch, number, peers, **settings)
        conf = _write_conf(
            scratch,
            f"controller{number}.conf",
            {
                "controllerDLegerGroup": "group1",
                "controllerDLegerPeers": ";".join(f"n{each}-127.0.0.1:{port}" for each, port in enumerate(peers)),
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": str(scratch / f"store{number}"),
                "configStorePath": str(scratch / f"controller{number}.properties"),
                "mappedFileSize": "1048576",
                **settings,
            },
        )
        command = _java(VERSION, scratch, HEAP, "controller.ControllerStartup", conf)
        super().__init__(f"controller{number}", command, scratch)


def start_controllers(running, scratch, count, **settings):
    """Start *count* controllers; return them."""
    ports = [free_port() for _ in range(count)]
    return [running(JavaController(scratch, number, ports, **settings)) for number in range(count)]
