"""gRPC over HTTP/2 on asyncio transports. Knows nothing of RocketMQ."""
