"""Option texts of one query, and the kinds of values that several sources and the sink have; a mistake is one sentence.

Case does not matter in names, because Spark passes them in lower case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, overload

from gantrymq.client import Credentials
from gantrymq.errors import ConfigError, InvalidParameter
from gantrymq.plugin.client import resolve_credentials
from gantrymq_spark.batches import BODY_PROBLEMS
from gantrymq_spark.columns import selected
from gantrymq_spark.live.starting_offsets import duration_ms

_SIZE: Final = re.compile(r"([1-9][0-9]{0,14})([kmg]?)b?", re.ASCII)
ACCOUNT: Final = ("accessKey", "secretKey", "securityToken")
"""Options of an account at a cluster with access control."""
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class OptionTexts:
    """The given options by their documented names. Every method raises ConfigError for a malformed text."""

    def __init__(
        self, given: Mapping[str, str], known: Sequence[str], owner: str, ignored: Collection[str] = ()
    ) -> None:
        """Keep the texts.

        Args:
            given: option texts; names in any case.
            known: documented names.
            owner: of the options, in sentences, such as "the sink gantrymq".
            ignored: other names in lower case that are accepted and left out.

        Raises:
            ConfigError: an option is unknown.
        """
        spelled = {name.lower(): name for name in known}
        self._texts: dict[str, str] = {}
        for name, text in given.items():
            if (lower := name.lower()) in spelled:
                self._texts[spelled[lower]] = str(text)
            elif lower not in ignored:
                near = difflib.get_close_matches(lower, spelled, 1)
                hint = f"did you mean {spelled[near[0]]}?" if near else f"the options are {', '.join(known)}"
                raise ConfigError(f"{owner} has no option {name}; {hint}")

    def __contains__(self, name: str) -> bool:
        """Return whether the option is given."""
        return name in self._texts

    def get(self, name: str, default: str = "") -> str:
        """Return the text without blanks around it."""
        return self._texts.get(name, default).strip()

    def raw(self, name: str) -> str | None:
        """Return the text as it was given; None if it was not."""
        return self._texts.get(name)

    def text(self, name: str) -> str | None:
        """Return a text that may be absent but not empty."""
        if name in self and not self.get(name):
            raise ConfigError(f"option {name} is empty; write a text or remove it")
        return self.raw(name)

    @overload
    def flag(self, name: str, default: bool) -> bool: ...
    @overload
    def flag(self, name: str, default: None = None) -> bool | None: ...
    def flag(self, name: str, default: bool | None = None) -> bool | None:
        """Return true or false."""
        if name not in self:
            return default
        word = self.get(name).lower()
        if word not in ("true", "false"):
            raise ConfigError(f"option {name}: {self._texts[name]!r} is neither true nor false")
        return word == "true"

    def count(self, name: str, most: int | None = None) -> int | None:
        """Return a number from 1, up to *most*."""
        if name not in self:
            return None
        text = self.get(name)
        if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or not 1 <= int(text) <= (most or int(text)):
            bound = "" if most is None else f" to {most}"
            raise ConfigError(f"option {name}: {text!r} is not a count; write a number from 1{bound}")
        return int(text)

    def size(self, name: str) -> int | None:
        """Return a number of bytes, written such as 64m."""
        if name not in self:
            return None
        text = self.get(name)
        found = _SIZE.fullmatch(text.lower())
        if found is None:
            raise ConfigError(
                f"option {name}: {text!r} is not a size; write a number of bytes from 1, or for example 64m"
            )
        return int(found[1]) * _UNITS[found[2]]

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a duration, written such as 15m, in milliseconds."""
        return duration_ms(name, self._texts[name]) if name in self else default_ms

    def legal(self, name: str, text: str, check: Callable[[str], Any]) -> str:
        """Return *text* of the option if *check* accepts it."""
        try:
            check(text)
        except InvalidParameter as problem:
            raise ConfigError(f"option {name}: {problem}") from None
        return text

    def name_servers(self, environ: Mapping[str, str]) -> str:
        """Return the option ``namesrv``, or NAMESRV_ADDR of *environ*."""
        found = self.get("namesrv", environ.get("NAMESRV_ADDR", ""))
        if not found:
            raise ConfigError(
                'option namesrv is missing; set it to the name servers, such as "10.0.0.1:9876;10.0.0.2:9876"'
            )
        return found

    def credentials(self, environ: Mapping[str, str]) -> Credentials | None:
        """Return the account of the options, or else of *environ*; None without one."""
        access, secret, token = (self.text(name) for name in ACCOUNT)
        if access is None and secret is None and token is None:
            return resolve_credentials(None, environ)
        if access is None or secret is None:
            missing = "accessKey" if access is None else "secretKey"
            raise ConfigError(f"option {missing} is missing; an account has accessKey and secretKey")
        return Credentials(access.strip(), secret.strip(), token)

    def columns(self) -> tuple[str, ...]:
        """Return the columns of option ``columns``; all of them without it."""
        return columns_of(self._texts.get("columns"))

    def body_problems(self) -> str:
        """Return the option ``bodyProblems``, one of `BODY_PROBLEMS`."""
        text = self.get("bodyProblems", "null")
        if text.lower() not in BODY_PROBLEMS:
            raise ConfigError(f"option bodyProblems: {text!r} is not one of {', '.join(BODY_PROBLEMS)}")
        return text.lower()


def columns_of(text: str | None) -> tuple[str, ...]:
    """Return the columns that *text* names, all columns for None. Raises ConfigError."""
    try:
        return selected(text)
    except InvalidParameter as problem:
        raise ConfigError(f"option {problem}") from None
