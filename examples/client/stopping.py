"""Consume until SIGTERM or Ctrl-C: running handlers finish, and what they consumed is acknowledged."""

import asyncio
import signal

from gantrymq.client import Client, Message, ReceivedMessage


async def handle(message: ReceivedMessage) -> None:
    print(message.body.decode(), flush=True)


async def main() -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with Client() as client:
        await client.producer("task_desk").send(Message("Tasks", b"a task"))
        consumer = client.consumer("task_workers", "Tasks", consume_from="first")
        work = asyncio.create_task(consumer.run(handle, concurrency=8))
        await asyncio.wait([work, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        await consumer.close()
        await work  # raises what ended the consumer, if it was not a signal
    print("stopped")


asyncio.run(main())
