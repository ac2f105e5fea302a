"""What plugins show of themselves (`Broker.register_metrics`), read one by one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from gantrymq.interfaces import MetricFamily

__all__ = ["read_metrics"]

log = logging.getLogger(__name__)


def read_metrics(them: Iterable[Callable[[], MetricFamily]]) -> Iterator[MetricFamily]:
    """What plugins show; what raises is logged and left out."""
    for what in them:
        try:
            yield what()
        except Exception:
            log.exception("a plugin's figure cannot be shown")
