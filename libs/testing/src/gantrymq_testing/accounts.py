"""Users of a test's broker: their files, which gantrymq-access reads, and their credentials.

    {"shop": ["Pub Topic:Orders", "Sub,Get Group:billing"], "root": "Super", "guest": []}

Each user has a list of rights, or is Super; its secret is made from its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gantrymq.client import Credentials
from gantrymq.errors import ConfigError, install_command
from gantrymq.world import Files

Users = Mapping[str, str | Sequence[str]]

SUPER: Final = "Super"
OWN: Final = "gantrymq-testing"  # of the cluster's own clients
SETTINGS: Final[Mapping[str, bool]] = {"authenticationEnabled": True, "authorizationEnabled": True}


def credentials_of(user: str) -> Credentials:
    """Return the account of a user of a test."""
    return Credentials(user, f"secret-of-{user}")


def write_users(files: Files, folder: Path, users: Users) -> None:
    """Write users.json and acls.json into *folder*, with the account `OWN` added.

    Raises:
        ConfigError: gantrymq-access is not installed, or a right is not ``ACTIONS RESOURCE``.
    """
    try:
        import gantrymq_access.records as records
        import gantrymq_access.state as state
    except ImportError:
        raise ConfigError(f"users need gantrymq-access; {install_command('gantrymq-access')}") from None
    kinds = {name: rights == SUPER for name, rights in {**users, OWN: SUPER}.items()}
    of_users = [
        records.User(
            name,
            credentials_of(name).secret_key,
            records.UserType.SUPER if is_super else records.UserType.NORMAL,
        )
        for name, is_super in kinds.items()
    ]
    acls = []
    for name, rights in users.items():
        if isinstance(rights, str) and rights != SUPER:
            raise ConfigError(f"user {name} is {rights!r}; expected {SUPER!r}, or a list of rights")
        if rights and rights != SUPER:
            entries = tuple(records.Entry.from_json(_entry(name, each)) for each in rights)
            acls.append(records.Acl(name, (records.Policy(records.PolicyType.CUSTOM, entries),)))
    files.make_dirs(folder)
    files.replace(folder / state.USERS, state.users_text(of_users).encode(), mode=0o600)
    files.replace(folder / state.ACLS, state.acls_text(acls).encode(), mode=0o600)


def _entry(name: str, right: str) -> dict[str, Any]:
    actions, blank, resource = right.partition(" ")
    if not blank:
        raise ConfigError(f"user {name} has the right {right!r}; expected actions and a resource: Pub,Sub Topic:Orders")
    return {"actions": actions.split(","), "resource": resource.strip(), "decision": "Allow"}
