"""Test the handlers of stream_app.py in memory, without a broker."""

import asyncio

from stream_app import bill, broker, show

from gantrymq_faststream import TestGantryBroker


def test_an_order_is_billed_and_its_invoice_shown() -> None:
    async def run() -> None:
        async with TestGantryBroker(broker):
            await broker.publish({"id": 7, "amount": 100}, "ShopOrders")
            bill.mock.assert_called_once_with({"id": 7, "amount": 100})
            show.mock.assert_called_once_with({"order_id": 7, "total": 119.0})

    asyncio.run(run())
