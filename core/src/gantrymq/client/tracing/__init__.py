"""Who watches what a client sends and consumes: hooks, and RocketMQ's message trace, which is one of them."""
