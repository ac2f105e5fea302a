"""Flags of messages."""

from gantrymq.model.sys_flag import *  # noqa: F403
