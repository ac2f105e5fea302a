"""The TLS context of a server, made again when its certificate files have changed: a renewal needs no restart.

Source: apache/rocketmq broker/.../BrokerController.java (initialRequestPipeline, FileWatchService), which watches the
same three files.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.world import Clock, Files

__all__ = ["Certificates"]

log = logging.getLogger("gantrymq.remoting")

RECHECK_S: Final = 5.0


class Certificates:
    """Certificate, key and trusted authorities in PEM files."""

    def __init__(self, files: Files, clock: Clock, paths: Sequence[str], load: Callable[[], ssl.SSLContext]) -> None:
        """Load the files.

        Args:
            files: for the times of changes.
            clock: for `RECHECK_S`.
            paths: the files that *load* reads, the certificate first; empty ones are left out.
            load: reads the files. Raises ConfigError.

        Raises:
            ConfigError: a file cannot be used.
        """
        self._files, self._clock, self._load = files, clock, load
        self._paths = [Path(each) for each in paths if each]
        self._state = self._stat()
        self._checked_s = clock.monotonic()
        self._context = load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If changed files cannot be used, the old certificate is kept."""
        now_s = self._clock.monotonic()
        if now_s - self._checked_s >= RECHECK_S:
            self._checked_s = now_s
            state = self._stat()
            if state != self._state:
                self._state = state
                try:
                    self._context = self._load()
                    log.info("the certificate %s was read again", self._paths[0])
                except ConfigError as problem:
                    log.error("the old certificate stays in use: %s", problem)
        return self._context

    def _stat(self) -> list[Any]:
        return [self._files.stat(each) for each in self._paths]
