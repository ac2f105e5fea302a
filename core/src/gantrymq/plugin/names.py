"""Names of system topics and groups, and their rules."""

from gantrymq.model.names import *  # noqa: F403
