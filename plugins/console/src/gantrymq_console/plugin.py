"""Registers the command ``gantrymq console``."""

from __future__ import annotations
