"""The certificate of HTTPS, read again when its file has changed, so that renewals need no restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_contexts import load_chain, server_context
from gantrymq.world import World

__all__ = ["Certificates"]

log = logging.getLogger(__name__)

RECHECK_S: Final = 5.0


class Certificates:
    """A certificate chain and its key in PEM files."""

    def __init__(self, world: World, cert: str, key: str = "", password: str = "") -> None:
        """Read the files; without *key* the key is in the file of the certificate. Raises ConfigError."""
        self._world = world
        self._cert = cert
        self._key = key
        self._password = password
        self._state = self._stat()
        self._checked_s = world.clock.monotonic()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If changed files cannot be used, the old certificate is kept."""
        now_s = self._world.clock.monotonic()
        if now_s - self._checked_s >= RECHECK_S:
            self._checked_s = now_s
            state = self._stat()
            if state != self._state:
                self._state = state
                try:
                    self._context = self._load()
                    log.info("the certificate %s was read again", self._cert)
                except ConfigError as problem:
                    log.error("the old certificate stays in use: %s", problem)
        return self._context

    def _load(self) -> ssl.SSLContext:
        context = server_context("none", False, "")
        context.set_alpn_protocols(["http/1.1"])
        load_chain(context, self._cert, self._key, self._password, "tls.server")
        return context

    def _stat(self) -> Any:
        files = [Path(each) for each in (self._cert, self._key) if each]
        return [self._world.files.stat(each) for each in files]
