"""Runs clients of rocketmq-python-client until standard input is closed: python members.py HOST:PORT PREFIX

A push consumer, a simple consumer and a producer, as README.md describes.
"""

import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

AWAIT_S, INVISIBLE_S, PAUSE_S = 20, 10, 0.2


def emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")  # one write, since several threads do
    sys.stdout.flush()


def received(by: str, message: Message) -> None:
    text = message.body.split(b".", 1)[0].decode()
    emit("received", by=by, body=text, size=len(message.body), attempt=message.delivery_attempt)


class Listener(MessageListener):
    def consume(self, message: Message) -> ConsumeResult:
        received("push", message)
        return ConsumeResult.SUCCESS


def receive(consumer: SimpleConsumer) -> None:
    while True:
        try:
            for each in consumer.receive(16, INVISIBLE_S) or []:
                received("simple", each)
                consumer.ack(each)
        except Exception as error:
            emit("failed", error=f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_S)  # real time: the pause of a program before it receives again


def main(endpoint: str, prefix: str) -> None:
    configuration = ClientConfiguration(endpoint, Credentials())
    topic = prefix + "Push"
    simple = SimpleConsumer(configuration, prefix + "simple", {topic: FilterExpression()}, AWAIT_S)
    simple.startup()
    threading.Thread(target=receive, args=(simple,), daemon=True).start()
    PushConsumer(configuration, prefix + "push", Listener(), {topic: FilterExpression()}).startup()
    producer = Producer(configuration, [topic])
    producer.startup()
    emit("started")
    for line in sys.stdin:
        text, size = line.split()
        message = Message()
        message.topic, message.body = topic, text.encode().ljust(int(size), b".")
        try:
            emit("sent", body=text, id=producer.send(message).message_id)
        except Exception as error:
            emit("unsent", body=text, error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
