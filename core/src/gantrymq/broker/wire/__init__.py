"""Thin adapters between requests on a connection and the broker's operations.

Each module serves one family of request codes: it reads the typed header, calls an operation of the broker, and writes
the answer. No rule of the broker lives here, only RocketMQ's spelling of it.
"""
