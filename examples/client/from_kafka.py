"""Send orders by key and commit after each one: a program ported from kafka-python."""

import contextlib

from gantrymq.client import by_key
from gantrymq.client.sync import Client, Message

with contextlib.suppress(KeyboardInterrupt), Client() as client:
    producer = client.producer("shop", batching=True)
    orders = [("ann", b"one apple"), ("bob", b"two pears"), ("ann", b"one plum")]
    futures = [producer.send_soon(Message("Moved", body, keys=name), by_key(name)) for name, body in orders]
    print("stored at", sorted(future.result(timeout=10).queue_offset for future in futures))

    consumer = client.lite_pull("moved_billing", "Moved", auto_commit=False, consume_from="first")
    for done, message in enumerate(consumer, start=1):
        print(message.keys, message.body.decode())
        consumer.commit()
        if done == len(orders):
            break
