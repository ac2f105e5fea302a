"""An application in a process of its own: NAMESRV_ADDR=... python shop.py

It bills orders, archives invoices, and says on stdout what it does. An order of amount 0 fails at its first delivery.
"""

import asyncio
import sys

from faststream import FastStream
from faststream.exceptions import RejectMessage
from faststream.middlewares import AckPolicy

from gantrymq_faststream import GantryBroker
from gantrymq_faststream.annotations import GantryBatchMessage, GantryMessage

broker = GantryBroker(graceful_timeout=20)
app = FastStream(broker)


@broker.subscriber("Orders", group="billing", consume_from="first", max_workers=4)
@broker.publisher("Invoices", tags="invoice")
async def bill(order: dict[str, int], message: GantryMessage) -> dict[str, int]:
    if order["amount"] == 0 and message.raw_message.reconsume_times == 0:
        raise RuntimeError("not yet")
    return {"order": order["id"], "tries": message.raw_message.reconsume_times + 1}


@broker.subscriber("Invoices", group="archive", expression="invoice", consume_from="first")
async def archive(invoice: dict[str, int]) -> None:
    print(f"invoice {invoice['order']} after {invoice['tries']}", flush=True)


@broker.subscriber("Manual", group="manual", consume_from="first", ack_policy=AckPolicy.MANUAL)
async def manual(number: int, message: GantryMessage) -> None:
    first = message.raw_message.reconsume_times == 0
    print(f"manual {number} {'nack' if first else 'ack'}", flush=True)
    if first:
        await message.nack(delay_level=1)
    else:
        await message.ack()


@broker.subscriber("Refused", group="refused", consume_from="first", ack_policy=AckPolicy.REJECT_ON_ERROR)
async def refuse(number: int) -> None:
    raise RuntimeError(f"{number} is refused")


@broker.subscriber("Lines", group="lines", consume_from="first", batch=True, max_records=8)
async def lines(numbers: list[int], batch: GantryBatchMessage) -> None:
    assert len({each.queue_id for each in batch.raw_message}) == 1
    print(f"lines {len(numbers)} {' '.join(map(str, numbers))}", flush=True)


@broker.subscriber("Steps", group="steps", consume_from="first", orderly=True, suspend_s=0.1, max_workers=4)
async def step(body: str, message: GantryMessage) -> None:
    if body.endswith("bad"):
        raise RejectMessage
    if body.endswith("3") and message.raw_message.reconsume_times == 0:
        raise RuntimeError("again, and nobody overtakes")
    print(f"step {body}", flush=True)


@broker.subscriber("Prices", group="prices")
async def price(name: str) -> dict[str, int]:
    return {"price": len(name)}


@broker.subscriber("Slow", group="slow", consume_from="first")
async def slow(number: int) -> None:
    print(f"slow {number} begun", flush=True)
    await asyncio.sleep(1.0 if number else 0)  # real time: a process is stopped while its handler works
    print(f"slow {number} done", flush=True)


@app.after_startup
async def ready() -> None:
    assert await broker.ping(10)
    print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(app.run(log_level=40))
    sys.exit(0)
