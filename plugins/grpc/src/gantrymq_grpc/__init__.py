"""RocketMQ's gRPC protocol, served in the broker's process."""
