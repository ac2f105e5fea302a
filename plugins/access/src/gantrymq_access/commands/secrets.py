"""Secrets of users: read from a prompt, a file or the environment, and hidden in output."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from gantrymq.errors import ClientError
from gantrymq.plugin.commands import FilledPath

Command = TypeVar("Command", bound=Callable[..., Any])

HIDDEN: Final = "(hidden)"
_STANDARD: Final = Path("-")
_GENERATED_BYTES: Final = 24  # 32 characters
_MOST_CHARS: Final = 4096
_WAYS: Final = "--secret-file, --secret-env or --generate"

show_secrets_option = click.option("--show-secrets", is_flag=True, help="Print secrets; they are hidden otherwise.")


@attrs.frozen
class SecretSource:
    """Options that say where a secret comes from."""

    given: str | None = attrs.field(default=None, repr=False)
    file: Path | None = None
    variable: str | None = None
    generate: bool = False

    @property
    def named(self) -> bool:
        """Whether an option names a source."""
        return any((self.given is not None, self.file, self.variable, self.generate))

    def read(self, user: str) -> str:
        """Return the secret; ask for it on a terminal if no option names a source.

        Raises:
            click.UsageError: several sources are named, or none without a terminal.
            ClientError: the file or variable has no usable secret.
        """
        if sum((self.given is not None, self.file is not None, self.variable is not None, self.generate)) > 1:
            raise click.UsageError(f"give the secret in one way only: --secret, {_WAYS}")
        if self.generate:
            return secrets.token_urlsafe(_GENERATED_BYTES)
        if self.given is not None:
            return _usable(self.given, "--secret")
        if self.variable is not None:
            if self.variable not in os.environ:
                raise ClientError(f"the environment has no variable {self.variable}; set it to the secret of {user}")
            return _usable(os.environ[self.variable], f"${self.variable}")
        if self.file is not None:
            return _usable(_first_line(self.file), "standard input" if self.file == _STANDARD else str(self.file))
        if not sys.stdin.isatty():
            raise click.UsageError(f"there is no terminal to ask for the secret of {user}: give {_WAYS}")
        return _usable(click.prompt(f"Secret of {user}", hide_input=True, confirmation_prompt=True, err=True), "it")


def secret_options(command: Command) -> Command:
    """Add the options for a secret; the command gets ``secret``, a `SecretSource`."""

    @click.option(
        "--secret-file",
        type=FilledPath(dir_okay=False, allow_dash=True, path_type=Path),
        metavar="FILE",
        help="Read the secret from the first line of FILE; - is standard input.",
    )
    @click.option("--secret-env", metavar="NAME", help="Read the secret from environment variable NAME.")
    @click.option("--generate", is_flag=True, help="Generate the secret and print it once.")
    @click.option(
        "--secret",
        "secret_text",
        metavar="TEXT",
        help="The secret itself. Other users of this machine can see it in the list of processes.",
    )
    @wraps(command)
    def with_secret(
        *args: Any,
        secret_file: Path | None,
        secret_env: str | None,
        generate: bool,
        secret_text: str | None,
        **options: Any,
    ) -> Any:
        return command(*args, secret=SecretSource(secret_text, secret_file, secret_env, generate), **options)

    return with_secret  # type: ignore[return-value]  # click changes the signature at runtime


def _first_line(file: Path) -> str:
    try:
        text = sys.stdin.readline() if file == _STANDARD else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ClientError(f"the secret cannot be read from {file}: {problem}") from problem
    return text.split("\n", 1)[0].removesuffix("\r")


def _usable(secret: str, where: str) -> str:
    """Return *secret*. Raises ClientError for one that brokers refuse or that no client can send."""
    if not secret.strip():
        raise ClientError(f"the secret in {where} is empty")
    if len(secret) > _MOST_CHARS:
        raise ClientError(f"the secret in {where} has {len(secret)} characters; expected at most {_MOST_CHARS}")
    if not secret.isprintable() or secret != secret.strip():
        raise ClientError(
            f"the secret in {where} has spaces at an end or control characters; clients strip them, so that signatures "
            "would not match"
        )
    return secret
