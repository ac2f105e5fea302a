"""Servers that are away, busy or restarting are asked again; which errors say that, and how often."""

from __future__ import annotations

from gantrymq.errors import BrokerRefused, ClientError, NoRoute

__all__ = ["AGAIN_S", "passes"]

AGAIN_S = 1.0
_PASSING_CODES = frozenset({1, 2, 14, 215})  # system error, busy, not available, flow control


def passes(problem: ClientError) -> bool:
    """Whether the same question may be answered later."""
    if isinstance(problem, BrokerRefused):
        return problem.response_code in _PASSING_CODES
    return problem.retriable or isinstance(problem, NoRoute)
