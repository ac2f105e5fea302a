"""The client library: asyncio, pure Python, for our servers and for Java ones."""

from gantrymq.client.admin import Admin, QueueStats
from gantrymq.client.consumer import PullConsumer
from gantrymq.client.producer import Producer
from gantrymq.client.pull_result import PulledRecords, PullResult, PullStatus
from gantrymq.client.results import SendFailed, SendResult, SendStatus
from gantrymq.client.subscription import Subscription
from gantrymq.remoting.tls_contexts import TlsClient

__all__ = [
    "Admin",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PulledRecords",
    "QueueStats",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Subscription",
    "TlsClient",
]
