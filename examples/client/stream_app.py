"""Send three orders, bill them, and print each invoice; Ctrl-C lets handlers finish."""

import asyncio

from faststream import FastStream
from pydantic import BaseModel

from gantrymq_faststream import GantryBroker

broker = GantryBroker()  # at $NAMESRV_ADDR, or 127.0.0.1:9876
app = FastStream(broker)


class Order(BaseModel):
    id: int
    amount: int


class Invoice(BaseModel):
    order_id: int
    total: float


@broker.subscriber("ShopOrders", group="shop_billing", consume_from="first", max_workers=10)
@broker.publisher("ShopInvoices")
async def bill(order: Order) -> Invoice:
    return Invoice(order_id=order.id, total=order.amount * 1.19)


@broker.subscriber("ShopInvoices", group="shop_printing", consume_from="first")
async def show(invoice: Invoice) -> None:
    print(f"order {invoice.order_id}: {invoice.total:.2f}", flush=True)


@app.after_startup
async def send_orders() -> None:
    for number in (1, 2, 3):
        await broker.publish(Order(id=number, amount=100 * number), "ShopOrders")


if __name__ == "__main__":
    asyncio.run(app.run())
