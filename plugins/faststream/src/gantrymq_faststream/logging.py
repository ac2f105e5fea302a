"""The broker's log lines, with topic, group and message id."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.context import ContextRepo


_ID_CHARS = 32


class GantryParamsStorage(DefaultLoggerStorage):
    """Computes the column widths of log lines."""

    def __init__(self) -> None:
        super().__init__()
        self._topic_chars = 4
        self._group_chars = 4
        self.logger_log_level = logging.INFO

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Widen the columns for its topic and group."""
        self._topic_chars = max(self._topic_chars, len(params.get("topic", "")))
        self._group_chars = max(self._group_chars, len(params.get("group", "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """Return the logger, created on first use."""
        logger = self._get_logger_ref()
        if logger is None:
            logger = get_broker_logger(
                name="gantrymq",
                default_context={"topic": "", "group": ""},
                message_id_ln=_ID_CHARS,
                fmt=(
                    "%(asctime)s %(levelname)-8s - "
                    f"%(topic)-{self._topic_chars}s | %(group)-{self._group_chars}s | "
                    f"%(message_id)-{_ID_CHARS}s - %(message)s"
                ),
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger


make_gantry_logger_state = partial(make_logger_state, default_storage_cls=GantryParamsStorage)
