"""The files of rules on disk: finding, reading and changing them. All of it may block, and runs in a worker.

    conf/plain_acl.yml          the main file
    conf/acl/**/*.yml, *.yaml   more files, without tools.yml

Source: apache/rocketmq acl/.../plain/PlainPermissionManager.java (getAllAclFiles, updateAccessConfig,
deleteAccessConfig, updateGlobalWhiteAddrsConfig), 4.9.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError, InvalidParameter, StoreError
from gantrymq.plugin.world import FileTree
from gantrymq_access_plain import accounts as keys
from gantrymq_access_plain.accounts import MORE_THAN, PERMS, RuleFile, Rules, parse_entry, read_rule_file, shown_key
from gantrymq_access_plain.addresses import parse_pattern
from gantrymq_access_plain.yaml_text import MOST_BYTES, Node, read_yaml, yaml_text

OWNER_ONLY: Final = 0o600
MOST_FILES: Final = 1_000
MOST_FOLDERS: Final = 8  # nested ones; links may form a circle
LONGEST: Final = 1_024  # characters of a key or name in a request
_OTHERS: Final = 0o007
_OF_TOOLS: Final = "tools.yml"

Contents = Mapping[Path, bytes]


@attrs.frozen
class AccountChange:
    """What request 50 changes of an account or a new one; None leaves a member as it is, an empty text removes it."""

    access_key: str
    secret_key: str | None = attrs.field(default=None, repr=False)
    white_address: str | None = None
    is_admin: bool = False
    topic_default: str | None = None
    group_default: str | None = None
    topics: Sequence[str] | None = None
    groups: Sequence[str] | None = None


class RuleFiles:
    """The main file and the folder with more."""

    def __init__(self, files: FileTree, main: Path, folder: Path) -> None:
        """Prepare reading; nothing is read."""
        self._files = files
        self.main, self._folder = main, folder

    def read(self) -> dict[Path, bytes]:
        """Return the content of each file, the main file first.

        Raises:
            StoreError: there is no file, or one cannot be read.
        """
        found = [self.main] if self._files.stat(self.main) is not None else []
        self._collect(self._folder, found, 0)
        if not found:
            raise StoreError(
                f"there is no {self.main} and no .yml file in {self._folder}; write one with an account, such as "
                "accounts: [{accessKey: operator, secretKey: '...', admin: true}], that only the broker's user may read"
            )
        try:
            return {path: self._files.read(path) for path in dict.fromkeys(found)}
        except OSError as error:
            raise StoreError(f"{error.filename or self.main}: {error.strerror or error}") from error

    def _collect(self, folder: Path, found: list[Path], depth: int) -> None:
        for name in self._files.list(folder):
            path = folder / name
            if name.startswith("."):  # of an editor, or the folders behind the links of a mounted volume
                continue
            if name.endswith((".yml", ".yaml")) and name != _OF_TOOLS:
                found.append(path)
            elif depth < MOST_FOLDERS and (stat := self._files.stat(path)) is not None and stat.is_dir:
                self._collect(path, found, depth + 1)
        if len(found) > MOST_FILES:
            raise StoreError(f"there are more than {MOST_FILES} .yml files below {self._folder}; join some of them")

    def exposed(self, paths: Sequence[Path]) -> list[str]:
        """Return a sentence for each file that every user of the host can read."""
        said = []
        for path in paths:
            stat = self._files.stat(path)
            if stat is not None and stat.mode & _OTHERS:
                said.append(f"{path} has secrets, and every user of this host can read it: chmod 600 {path}")
        return said

    def change(self, path: Path, edit: Callable[[dict[str, Any]], None], now_ms: int) -> dict[Path, bytes]:
        """Change one file by *edit*, which gets its members as texts, lists and dicts; return all contents.

        The file keeps its permission bits; a new one is readable by its owner only. Nothing is written if the next
        start would refuse the result.

        Raises:
            FormatError: a file on disk or the result has a fault.
            InvalidParameter: raised by *edit*.
            StoreError: the file cannot be read or written.
        """
        contents = self.read()
        rules_of(contents)  # a file that was broken by hand is not overwritten
        members = _values(read_yaml(contents.get(path, b"")))
        members = members if isinstance(members, dict) else {}
        edit(members)
        members[keys.VERSION] = [{"counter": _next_counter(members), "timestamp": now_ms}]
        text = yaml_text(_typed(members))
        if len(text) > MOST_BYTES:
            raise FormatError(f"{path} would have {len(text)} bytes, at most {MOST_BYTES} are read")
        changed = {**contents, path: text}
        rules_of(changed)
        stat = self._files.stat(path)
        try:
            self._files.make_dirs(path.parent)
            self._files.replace(path, text, OWNER_ONLY if stat is None else stat.mode)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        return self.read()


def rules_of(contents: Contents) -> Rules:
    """Parse all files. Raises FormatError with file, line and account."""
    return Rules.of([read_rule_file(data, str(path)) for path, data in contents.items()])


def _values(node: Node) -> Any:
    if isinstance(node.value, list):
        return [_values(each) for each in node.value]
    if isinstance(node.value, dict):
        return {key: _values(each) for key, each in node.value.items()}
    return node.value


def _next_counter(members: Mapping[str, Any]) -> int:
    versions = members.get(keys.VERSION) or [{}]
    return int((versions[0] or {}).get("counter") or 0) + 1


def _typed(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members with flags instead of their texts, as Java writes them."""
    accounts = [
        {key: str(value).lower() == "true" if key == keys.ADMIN else value for key, value in (each or {}).items()}
        for each in members.get(keys.ACCOUNTS) or []
    ]
    return {**members, keys.ACCOUNTS: accounts}


# --- changes ----------------------------------------------------------------------------------------------------------


def holder(rules: Rules, access_key: str) -> RuleFile | None:
    """Return the file whose account of this access key is in force."""
    return next((each for each in rules.files if access_key in each.accounts), None)


def put_account(members: dict[str, Any], change: AccountChange) -> None:
    """Create an account, or change its given members.

    Raises:
        InvalidParameter: a value is too short, too long, malformed, or not printable.
    """
    check_change(change)
    held = members.get(keys.ACCOUNTS) or []
    members[keys.ACCOUNTS] = held
    found = next((each for each in held if each.get(keys.ACCESS_KEY) == change.access_key), None)
    if found is None:
        if not change.secret_key:
            raise _too_short(change.access_key)
        held.append(found := {keys.ACCESS_KEY: change.access_key})
    given = {
        keys.SECRET_KEY: change.secret_key or None,
        keys.WHITE_ADDRESS: change.white_address,
        keys.ADMIN: "true" if change.is_admin else "false",
        keys.TOPIC_DEFAULT: change.topic_default,
        keys.GROUP_DEFAULT: change.group_default,
        keys.TOPIC_PERMS: change.topics,
        keys.GROUP_PERMS: change.groups,
    }
    for key, value in given.items():
        if value:
            found[key] = value if isinstance(value, str) else list(value)
        elif value is not None:
            found.pop(key, None)


def remove_account(members: dict[str, Any], access_key: str) -> None:
    """Remove an account."""
    members[keys.ACCOUNTS] = [
        each for each in members.get(keys.ACCOUNTS) or [] if each.get(keys.ACCESS_KEY) != access_key
    ]


def put_white_addresses(members: dict[str, Any], patterns: Sequence[str]) -> None:
    """Replace the global white list. Raises InvalidParameter for a malformed pattern."""
    for each in patterns:
        _check_pattern(each)
    members[keys.WHITE_ADDRESSES] = list(patterns)


def check_change(change: AccountChange) -> None:
    """Check the given members of a change. Raises InvalidParameter."""
    if len(change.access_key) <= MORE_THAN or (change.secret_key and len(change.secret_key) <= MORE_THAN):
        raise _too_short(change.access_key)
    for text, name in (
        (change.access_key, keys.ACCESS_KEY),
        (change.secret_key, keys.SECRET_KEY),
        *((each, keys.TOPIC_PERMS) for each in change.topics or ()),
        *((each, keys.GROUP_PERMS) for each in change.groups or ()),
    ):
        if text and (len(text) > LONGEST or not text.isprintable()):
            raise InvalidParameter(f"{name} has more than {LONGEST} characters, or one that is not printable")
    for default in (change.topic_default, change.group_default):
        if default:
            _check_perm(default)
    for entry in (*(change.topics or ()), *(change.groups or ())):
        try:
            _check_perm(parse_entry(entry)[1])
        except FormatError as error:
            raise InvalidParameter(str(error)) from None
    if change.white_address:
        _check_pattern(change.white_address)


def _check_perm(text: str) -> None:
    if text.strip() not in PERMS:
        raise InvalidParameter(f"the permission {text[:60]!r} is none of {', '.join(PERMS)}")


def _check_pattern(text: str) -> None:
    try:
        parse_pattern(text)
    except FormatError as error:
        raise InvalidParameter(str(error)) from None


def _too_short(access_key: str) -> InvalidParameter:
    return InvalidParameter(
        f"The accessKey={shown_key(access_key)} and its secretKey cannot be null and length should longer than "
        f"{MORE_THAN}"
    )
