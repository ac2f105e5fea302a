"""Send readings of many sensors: batched by the producer, and as explicit batches."""

import asyncio
import contextlib

from gantrymq.client import Batching, Client, Message


async def main() -> None:
    async with Client() as client:
        producer = client.producer("sensors", batching=Batching(max_wait_ms=5))
        results = await asyncio.gather(
            *(producer.send(Message("Readings", f"sensor {number}: 20.5".encode())) for number in range(1000))
        )
        print(f"{len({result.message_id for result in results})} readings are stored, each with its own result")

        readings = [Message("Readings", f"sensor {number}: 21.0".encode()) for number in range(1000)]
        batches = await producer.send_batches(readings)
        for batch in batches:
            print(f"{len(batch.message_ids)} more are in queue {batch.queue.queue_id} from {batch.queue_offset} on")


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
