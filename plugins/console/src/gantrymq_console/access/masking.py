"""Secrets in settings, which no role may read."""

from __future__ import annotations

import re
from typing import Final

from gantrymq.plugin.settings import HIDDEN

__all__ = ["is_secret", "mask"]

SECRET: Final = re.compile(
    r"password|passwd|passphrase|secret|access_?key|token|credential|private_?key", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Return whether the setting *key* holds a secret, judged by its name."""
    return SECRET.search(key) is not None


def mask(key: str, value: str) -> str:
    """Return *value*, or asterisks if *key* holds a secret that is set."""
    return HIDDEN if value and is_secret(key) else value
