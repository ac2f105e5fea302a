"""A pull as an operation: what is asked and what is answered, whatever protocol brought it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["PullAnswer", "PullRequest"]


class PullRequest(NamedTuple):
    """A pull as a consumer asks for it."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_count: int = 32
    sys_flag: int = 4  # 1: commit, 2: wait for messages, 4: the subscription is here, see model.pull_flag
    commit_offset: int = 0
    suspend_ms: int = 0  # how long to wait, with 2
    expression: str | None = None  # with 4; None means all
    version: int = 0  # of the subscription, without 4
    expression_type: str | None = None  # None means TAG
    lite: bool = False


class PullAnswer(NamedTuple):
    """What a pull is told."""

    code: int  # 0 found, 19 nothing yet, 20 nothing that matches up to next_offset, 21 read on at next_offset
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: Sequence[bytes | memoryview]  # records, one behind the other
    size: int  # bytes in all buffers
    messages: int  # how many
    topic_sys_flag: int
    group_sys_flag: int
