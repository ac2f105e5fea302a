"""Byte formats of a store's files, as in RocketMQ. This package does no I/O itself."""
