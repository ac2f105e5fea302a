"""Runs the official admin tool of Apache RocketMQ (java/tools), all commands in one process."""

from pathlib import Path

from harness.jars import QUICK, tools_class_path
from harness.peers import serves
from harness.process import Event, Process

ANSWER_S = 60.0


class MqAdmin(Process):
    """The admin tool of *version*, and live clients that its commands can inspect.

    Args:
        version: of `rocketmq-tools`.
        scratch: its home; `consumerStatus` and exports write below it.
        namesrv: HOST:PORT.
    """

    def __init__(self, version: str, scratch: Path, namesrv: str) -> None:
        home = scratch / "mqadmin"
        java = [
            "java",
            *QUICK,
            "-Djava.net.preferIPv4Stack=true",  # message ids are as long as those of the golden run
            "-Drocketmq.client.rebalance.waitInterval=1000",
            *(f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", tools_class_path(version)),
        ]
        super().__init__("mqadmin", [*java, "gantrymq.interop.MqAdmin"], home)
        self._namesrv = namesrv
        serves(f"mqadmin {version}", self.alive)

    def live(self, topic: str) -> None:
        """Start a producer and two consumers of *topic* that keep running."""
        self._ask("live", self._namesrv, topic)

    def send(self, topic: str, broker: str, queue_id: int, tag: str, key: str, body_base64: str) -> None:
        """Send one message with the producer."""
        self._ask("send", topic, broker, str(queue_id), tag, key, body_base64)

    def run(self, *command: str) -> str:
        """Run one command and return its standard output and error together."""
        return str(self._ask("run", *command)["text"])

    def _ask(self, *fields: str) -> Event:
        before = len(self.events)
        self.write_line("\t".join(fields))
        return self.wait_for(lambda p: p.events[before:], f"an answer to {fields[:3]}", ANSWER_S)[0]
