"""Protocols that a plugin implements, the parts of a broker that it receives, and the records passed between them."""

from gantrymq.interfaces import *  # noqa: F403
