"""Request handlers: thin adapters between the remoting protocol and the broker's operations.

Each module serves one family of request codes: it parses the typed header, calls an operation of the broker, and builds
the response. Rules of the broker belong to the operations; only RocketMQ's encoding is handled here.
"""
