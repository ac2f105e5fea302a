"""What plugins show of themselves (`Broker.show`), read one by one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from gantrymq.interfaces import Shown

__all__ = ["shown"]

log = logging.getLogger(__name__)


def shown(them: Iterable[Callable[[], Shown]]) -> Iterator[Shown]:
    """What plugins show; what raises is logged and left out."""
    for what in them:
        try:
            yield what()
        except Exception:
            log.exception("a plugin's figure cannot be shown")
