"""A FastStream broker over `gantrymq.client`, for GantryMQ and for RocketMQ.

    broker = GantryBroker("127.0.0.1:9876")
    app = FastStream(broker)

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices")
    async def bill(order: Order) -> Invoice: ...

broker      the broker: connects, publishes, sends requests
router      subscribers and publishers to include in a broker
subscriber  a member of a consumer group that calls handlers
publisher   a topic for handlers' results
message     messages for handlers: acknowledgement, headers, the client's message
testing     the broker in memory
"""

from faststream._internal.testing.app import TestApp

from gantrymq_faststream.broker import GantryBroker, RocketBroker
from gantrymq_faststream.message import GantryBatchMessage, GantryMessage
from gantrymq_faststream.options import MessageOptions
from gantrymq_faststream.outcomes import ResultNotPublished
from gantrymq_faststream.response import GantryPublishCommand, GantryResponse
from gantrymq_faststream.router import GantryPublisher, GantryRoute, GantryRouter
from gantrymq_faststream.testing import TestGantryBroker

__all__ = [
    "GantryBatchMessage",
    "GantryBroker",
    "GantryMessage",
    "GantryPublishCommand",
    "GantryPublisher",
    "GantryResponse",
    "GantryRoute",
    "GantryRouter",
    "MessageOptions",
    "ResultNotPublished",
    "RocketBroker",
    "TestApp",
    "TestGantryBroker",
]
