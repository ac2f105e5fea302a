"""Where Prometheus is, and what it wants to see: the options of the operator."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import World
from gantrymq_console.http_client import checked_address

PREFIX: Final = "GANTRYMQ_CONSOLE_PROMETHEUS"
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class SecretUnreadable(Exception):
    """A secret cannot be used; the text is a sentence without the last period and without the secret."""


@attrs.frozen
class PrometheusOptions:
    """An address, labels that series must have, and secrets, which are read at each use."""

    to: SplitResult
    labels: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, option: str, address: str, labels: Sequence[str] = ()) -> PrometheusOptions:
        """Return options.

        Args:
            option: with which the address was given.
            address: of the server, with the path before ``/api/v1``.
            labels: such as ``env=prod``.

        Raises:
            ConfigError: one cannot be used.
        """
        to = checked_address(option, address, "http://127.0.0.1:9090", f"${PREFIX}_USER and ${PREFIX}_PASSWORD")
        if to.query or to.fragment:
            raise ConfigError(
                f"{option}: the address ends before /api/v1 and has no query, such as http://10.0.0.9:9090"
            )
        pairs = [each.partition("=") for each in labels]
        for name, sign, value in pairs:
            if not sign or not _LABEL.fullmatch(name) or name == "cluster":
                raise ConfigError(
                    f"{option}: {name}{sign}{value} is not the name and value of a label other than cluster; "
                    "give one such as env=prod"
                )
        return cls(to, {name: value for name, _, value in pairs})

    def authorization(self, world: World) -> list[tuple[str, str]]:
        """Return the header with the secret of the environment, if any. Raises SecretUnreadable."""
        token = _secret(world, "TOKEN")
        if token:
            if not token.isascii() or not token.isprintable():  # an error of the header would show it
                raise SecretUnreadable(f"The token for Prometheus, of ${PREFIX}_TOKEN, has letters that no token has")
            return [("Authorization", f"Bearer {token}")]
        user, password = world.environ.get(f"{PREFIX}_USER", ""), _secret(world, "PASSWORD")
        if not user and not password:
            return []
        return [("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())]


def _secret(world: World, word: str) -> str:
    """Return a variable, or the content of the file that another variable names; empty without both."""
    variable = f"{PREFIX}_{word}_FILE"
    path = world.environ.get(variable, "")
    if not path:
        return world.environ.get(f"{PREFIX}_{word}", "").strip()
    try:
        return world.files.read(Path(path)).decode(errors="replace").strip()
    except OSError as problem:
        reason = problem.strerror or problem
        raise SecretUnreadable(f"The file of ${variable}, {path}, cannot be read: {reason}") from problem
