"""Handlers of RocketMQ's requests that only operators' tools send, such as mqadmin, the dashboard and our commands."""
