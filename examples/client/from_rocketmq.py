"""Send a message and consume it with a function: a program ported from rocketmq-client-python."""

import contextlib

from gantrymq.client import ReceivedMessage, ReconsumeLater
from gantrymq.client.sync import Client, Message

with contextlib.suppress(KeyboardInterrupt), Client() as client:
    producer = client.producer("PID-shop")
    sent = producer.send(Message("Greetings", b"hello", keys="greeting", tags="Short", properties={"from": "shop"}))
    print("sent:", sent.status.name)

    consumer = client.consumer("CID-greeter", "Greetings", expression="Short", consume_from="first")

    def consume(message: ReceivedMessage) -> None:
        if message.properties["from"] != "shop":
            raise ReconsumeLater(3)
        print("received:", message.body.decode())
        consumer.close()  # so that this program ends

    consumer.run(consume, concurrency=4)
