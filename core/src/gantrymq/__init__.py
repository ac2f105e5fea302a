"""GantryMQ: a message broker framework with Apache RocketMQ's semantics, wire protocol and on-disk formats."""

__version__ = "0.4.0.dev0"
