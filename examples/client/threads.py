"""Threads send receipts, and one loop prints them: no asyncio."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from gantrymq.client.sync import Client, Message

with contextlib.suppress(KeyboardInterrupt), Client() as client:
    producer = client.producer("shop")
    with ThreadPoolExecutor(4) as threads:
        receipts = [Message("Receipts", f"receipt {number}".encode()) for number in range(8)]
        stored = list(threads.map(producer.send, receipts))
    print(f"{len(stored)} are stored")

    results = [producer.send_soon(Message("Receipts", f"late receipt {number}".encode())) for number in range(2)]
    print(f"{sum(result.result().ok for result in results)} more are stored")

    consumer = client.consumer("printer", "Receipts", consume_from="first")
    for number, message in enumerate(consumer, start=1):
        print(message.body.decode())
        if number == 10:
            break
