"""Users and policies in force: immutable tables, and their texts.

    users.json   {"users":[                 acls.json   {"acls":[
                 <body of 3004>,                        <body of 3009>,
                 ...                                    ...
                 ]}                                     ]}

One line for each user, in the order of their names. The line of a user who did not change is not formatted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Self

import attrs

from gantrymq.errors import FormatError, GantryError, InvalidParameter
from gantrymq.plugin.loose_json import dumps_standard
from gantrymq_access.decisions import Decider
from gantrymq_access.records import MAX_USERS, Acl, User, check_user, read_json

USERS: Final = "users.json"
ACLS: Final = "acls.json"
MANY: Final = 500  # policies with more entries and networks are compiled before they are in force


def users_text(users: Iterable[User]) -> str:
    """Return the content of users.json."""
    return _text("users", {each.name: _line(each.to_json()) for each in users})


def acls_text(acls: Iterable[Acl]) -> str:
    """Return the content of acls.json."""
    return _text("acls", {each.user: _line(each.to_json()) for each in acls})


def read_users(text: bytes) -> dict[str, User]:
    """Parse the content of users.json.

    Raises:
        FormatError: it is malformed, or has a user that this broker does not store; without any secret.
    """
    return _read(text, "users", _user, lambda user: user.name)


def read_acls(text: bytes) -> dict[str, Acl]:
    """Parse the content of acls.json. Raises FormatError like `read_users`."""
    return _read(text, "acls", Acl.from_json, lambda acl: acl.user)


@attrs.frozen(eq=False)
class AccessState:
    """All users and policies. A change makes another object."""

    users: Mapping[str, User] = attrs.field(factory=dict)
    deciders: Mapping[str, Decider] = attrs.field(factory=dict)  # of the users with policies
    texts: Mapping[str, str] = attrs.field(factory=dict, repr=False)  # file name to content, with secrets
    _lines: Mapping[str, Mapping[str, str]] | None = attrs.field(default=None, repr=False)  # None before a change

    @classmethod
    def of(cls, users: Mapping[str, User], acls: Mapping[str, Acl], texts: Mapping[str, str] | None = None) -> Self:
        """Return the state of these records; may take long.

        Args:
            texts: the files that they were read from.
        """
        deciders = {name: _decider(acl) for name, acl in acls.items()}
        made = {USERS: users_text(users.values()), ACLS: acls_text(acls.values())} if texts is None else texts
        return cls(dict(users), deciders, made)

    @cached_property
    def by_certificate(self) -> Mapping[str, User]:
        """Users by the subject of their certificate."""
        return {user.certificate: user for user in self.users.values() if user.certificate}

    def acl(self, name: str) -> Acl | None:
        """Return the policies of a user; None without any."""
        decider = self.deciders.get(name)
        return None if decider is None else decider.acl

    def with_user(self, user: User) -> Self:
        """Return this state with a user added or replaced.

        Raises:
            InvalidParameter: there would be too many users, or another one has the same certificate.
        """
        if user.name not in self.users and len(self.users) >= MAX_USERS:
            raise InvalidParameter(f"there are {len(self.users)} users, at most {MAX_USERS} are allowed")
        if user.certificate:
            _check_certificates(each for each in (*self.users.values(), user) if each.name != user.name or each is user)
        return self._changed(USERS, user.name, user, _line(user.to_json()))

    def with_acl(self, acl: Acl) -> Self:
        """Return this state with the policies of a user replaced; without policies they are removed."""
        if not acl.policies:
            return self._changed(ACLS, acl.user, None, "")
        return self._changed(ACLS, acl.user, _decider(acl), _line(acl.to_json()))

    def without_user(self, name: str) -> Self:
        """Return this state without a user and its policies."""
        return self._changed(USERS, name, None, "")._changed(ACLS, name, None, "")

    def _changed(self, file: str, name: str, made: User | Decider | None, line: str) -> Self:
        before = self._formatted() if self._lines is None else self._lines
        of_file = {**before[file], name: line}
        records: dict[str, Any] = {**(self.users if file == USERS else self.deciders), name: made}
        if made is None:
            del of_file[name], records[name]
        lines = {**before, file: of_file}
        texts = {**self.texts, file: _text(file.removesuffix(".json"), of_file)}
        if file == USERS:
            return attrs.evolve(self, users=records, texts=texts, lines=lines)
        return attrs.evolve(self, deciders=records, texts=texts, lines=lines)

    def _formatted(self) -> dict[str, dict[str, str]]:
        return {
            USERS: {name: _line(user.to_json()) for name, user in self.users.items()},
            ACLS: {name: _line(each.acl.to_json()) for name, each in self.deciders.items()},
        }


def _decider(acl: Acl) -> Decider:
    decider = Decider(acl)
    if acl.size + sum(len(entry.sources) for policy in acl.policies for entry in policy.entries) > MANY:
        decider.compile()
    return decider


def _user(members: dict[str, Any]) -> User:
    user = User.from_json(members)
    try:
        check_user(user)
    except FormatError:
        raise
    except GantryError as error:
        raise FormatError(f"user {user.name[:60]!r}: {error}") from None
    return user


def _check_certificates(users: Iterable[User]) -> None:
    """Raise InvalidParameter if two users have the same certificate."""
    seen: dict[str, str] = {}
    for user in users:
        if user.certificate and (other := seen.setdefault(user.certificate, user.name)) != user.name:
            raise InvalidParameter(f"users {other} and {user.name} have the same certificate; a client is one user")


def _read(
    text: bytes, member: str, read: Callable[[dict[str, Any]], Any], name_of: Callable[[Any], str]
) -> dict[str, Any]:
    value = read_json(text)
    rows = value.get(member) if isinstance(value, dict) else None
    if not isinstance(rows, list) or len(value) != 1:
        raise FormatError(f'it is not an object such as {{"{member}":[...]}}')
    if len(rows) > MAX_USERS:
        raise FormatError(f"it has {len(rows)} {member}, at most {MAX_USERS} are allowed")
    found: dict[str, Any] = {}
    for number, row in enumerate(rows, 1):
        try:
            if not isinstance(row, dict):
                raise FormatError("it is not an object")
            record = read(row)
        except GantryError as error:
            raise FormatError(f"number {number} of {member}: {error}") from None
        if name_of(record) in found:
            raise FormatError(f"it has user {name_of(record)!r} twice")
        found[name_of(record)] = record
    if member == "users":
        try:
            _check_certificates(found.values())
        except InvalidParameter as error:
            raise FormatError(str(error)) from None
    return found


def _line(value: dict[str, Any]) -> str:
    return dumps_standard(value).decode()


def _text(member: str, lines: Mapping[str, str]) -> str:
    rows = ",\n".join(lines[name] for name in sorted(lines))
    return f'{{"{member}":[\n{rows}\n]}}\n'
