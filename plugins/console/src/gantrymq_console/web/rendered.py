"""Main parts of pages that are the same for all visitors of a role, kept while their data is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from gantrymq_console.web.visit import Visit

__all__ = ["RenderedPages"]

MOST: Final = 64


class RenderedPages:
    """Texts with their ETags."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[Any, str, str]] = OrderedDict()

    def get(self, visit: Visit, data: Any, tag: Callable[[], str], render: Callable[[], str]) -> tuple[str, str]:
        """Return ETag and text of the refresh that *visit* is; made by *tag* and *render* once for the same *data*."""
        key = (visit.back, visit.texts.language, visit.user.role)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not data:
            kept = self._kept[key] = data, tag(), render()
            self._kept.move_to_end(key)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return kept[1], kept[2]
