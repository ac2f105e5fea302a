"""Write java_names-5.3.3.txt: the public methods of RocketMQ's client classes, with the names printed by javap.

    python tests/client/data/java_names.py FOLDER_OF_JARS...

The folders hold rocketmq-client, -common, -remoting and -tools 5.3.3 with their dependencies (Maven's
``dependency:copy-dependencies``). A line is a class and its own methods, without constructors and the methods of
every object; overloaded names are listed once.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "org.apache.rocketmq."
CLASSES = (
    "client.ClientConfig",
    "client.producer.DefaultMQProducer",
    "client.producer.TransactionMQProducer",
    "client.producer.MessageQueueSelector",
    "client.producer.SendResult",
    "client.producer.TransactionSendResult",
    "client.consumer.DefaultMQPushConsumer",
    "client.consumer.listener.ConsumeConcurrentlyContext",
    "client.consumer.listener.ConsumeOrderlyContext",
    "client.consumer.MessageSelector",
    "client.consumer.DefaultLitePullConsumer",
    "client.consumer.DefaultMQPullConsumer",
    "client.consumer.PullResult",
    "common.message.Message",
    "common.message.MessageExt",
    "tools.admin.DefaultMQAdminExt",
)
OF_EVERY_OBJECT = {"toString", "equals", "hashCode"}


def main() -> None:
    jars = ":".join(str(jar) for folder in sys.argv[1:] for jar in sorted(Path(folder).glob("*.jar")))
    lines = []
    for name in CLASSES:
        command = ["javap", "-public", "-cp", jars, PACKAGE + name]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        methods = sorted(set(re.findall(r" (\w+)\(", shown)) - OF_EVERY_OBJECT)
        lines.append(f"{name.rpartition('.')[2]}: {' '.join(methods)}")
    (Path(__file__).parent / "java_names-5.3.3.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
