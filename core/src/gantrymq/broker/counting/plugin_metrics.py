"""Reading the metrics of plugins (`gantrymq.interfaces.Metrics.register`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from gantrymq.interfaces import MetricFamily

log = logging.getLogger(__name__)


def read_metrics(them: Iterable[Callable[[], MetricFamily]]) -> Iterator[MetricFamily]:
    """Read metrics one by one; those that raise are logged and omitted."""
    for what in them:
        try:
            yield what()
        except Exception:
            log.exception("a plugin's metric cannot be read")
