"""Instrumentation of a client: hooks, and RocketMQ's message trace, which is implemented as a hook."""
