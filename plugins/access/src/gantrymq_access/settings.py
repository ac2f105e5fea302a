"""The settings of access control, with RocketMQ's names where it has one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from gantrymq.errors import ConfigError, FormatError, GantryError
from gantrymq.plugin.settings import Setting, Settings, Value

if TYPE_CHECKING:
    from gantrymq_access.records import User

AUTHORIZER: Final = "acl"

_REQUEST: Final = re.compile(r"[0-9]{1,9}|[A-Za-z_][\w.]*", re.ASCII)
_PACKAGE: Final = "org.apache.rocketmq.auth."
_OWN: Final = {  # RocketMQ's classes that do what this plugin does
    "authenticationProvider": "authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": "authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "authorization.provider.LocalAuthorizationMetadataProvider",
}
_STATELESS: Final = ("", "stateless", "StatelessAuthenticationStrategy", "StatelessAuthorizationStrategy")
_STATEFUL: Final = ("stateful", "StatefulAuthenticationStrategy", "StatefulAuthorizationStrategy")


def _only(own: str) -> Callable[[Value], str | None]:
    def refuse(value: Value) -> str | None:
        if value in ("", own, _PACKAGE + own):
            return None
        return f"this class does not run here; leave the setting out, which means {_PACKAGE}{own}"

    return refuse


def _strategy(value: Value) -> str | None:
    if str(value).rpartition(".")[2] in (*_STATELESS, *_STATEFUL):
        return None
    return "this class does not run here; use stateless (each request is checked) or stateful (once a minute)"


def _convert(value: Value) -> str | None:
    return "accounts are not taken over at a start; run: gantrymq acl convert plain_acl.yml" if value else None


SCHEMA: Final = (
    Setting.flag(
        "authenticationEnabled",
        False,
        "Clients need an account and a valid signature; alone, every user may do everything but manage users.",
        selects=("authorizer", AUTHORIZER),
    ),
    Setting.flag(
        "authorizationEnabled",
        False,
        "Users may do what their policies allow; needs authenticationEnabled=true.",
        selects=("authorizer", AUTHORIZER),
    ),
    Setting.text(
        "accessMode",
        "enforce",
        "With report, decisions are made, counted and recorded, but nothing is refused.",
        choices=("enforce", "report"),
        local=True,
    ),
    *(Setting.text(key, "", "Only RocketMQ's own class.", not_built=_only(own)) for key, own in _OWN.items()),
    Setting.text(
        "authenticationStrategy",
        "",
        "stateless: the signature of each request is checked; stateful: of the first in a minute.",
        not_built=_strategy,
    ),
    Setting.text("authorizationStrategy", "", "Like authenticationStrategy, for policies.", not_built=_strategy),
    Setting.text("authenticationWhitelist", "", "Request codes that need no account, comma-separated.", local=True),
    Setting.text("authorizationWhitelist", "", "Request codes that need no policy, comma-separated.", local=True),
    Setting.text(
        "initAuthenticationUser",
        "",
        'A Super user to create if it is missing: {"username":"NAME","password":"SECRET"}.',
        secret=True,
        local=True,
        private=True,
    ),
    Setting.flag("migrateAuthFromV1Enabled", False, "Not available: use gantrymq acl convert.", not_built=_convert),
    Setting.flag("accessAuditPasses", False, "Record allowed requests in the audit log, once for each decision."),
    Setting.number("accessAuditFileSize", 64 * 1024 * 1024, "Size of one file of the audit log, bytes.", at_least=4096),
    Setting.number("accessAuditFiles", 10, "Files of the audit log that are kept.", at_least=1, at_most=1000),
)


@attrs.frozen
class AccessOptions:
    """The settings, parsed."""

    policies: bool  # False: authentication only
    reporting: bool
    each_request: bool
    open_logins: frozenset[int | str]  # requests that need no account
    open_requests: frozenset[int | str]  # requests that need no policy
    first_user: User | None

    @classmethod
    def of(cls, settings: Settings) -> AccessOptions:
        """Parse the settings. Raises ConfigError."""
        authentication = settings.flag("authenticationEnabled")
        authorization = settings.flag("authorizationEnabled")
        if authorization and not authentication:
            raise ConfigError(
                f"{settings.source('authorizationEnabled')}: authorizationEnabled=true without "
                "authenticationEnabled=true would believe the name that a client sends; set both"
            )
        strategies = (settings.text("authenticationStrategy"), settings.text("authorizationStrategy"))
        return cls(
            policies=authorization or not authentication,
            reporting=settings.text("accessMode") == "report",
            each_request=any(each.rpartition(".")[2] in _STATELESS for each in strategies),
            open_logins=_requests(settings, "authenticationWhitelist"),
            open_requests=_requests(settings, "authorizationWhitelist"),
            first_user=_first_user(settings),
        )


def _requests(settings: Settings, key: str) -> frozenset[int | str]:
    """Return request codes, and names of messages such as ``apache.rocketmq.v2.SendMessageRequest``."""
    words = [each.strip() for each in settings.text(key).split(",") if each.strip()]
    for each in words:
        if not _REQUEST.fullmatch(each):
            raise ConfigError(
                f"{settings.source(key)}: {key}: {each!r} is neither a request code such as 310 nor the name of a "
                "message; for addresses use policies"
            )
    return frozenset(int(each) if each.isdecimal() else each for each in words)


def _first_user(settings: Settings) -> User | None:
    key = "initAuthenticationUser"
    text = settings.text(key).strip()
    if not text:
        return None
    from gantrymq_access.records import User, UserType, check_user, read_json  # a broker without accounts needs none

    where = f"{settings.source(key)}: {key}"
    try:
        found = read_json(text.encode())
    except FormatError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(each), str) for each in ("username", "password")):
        raise ConfigError(f'{where} is not JSON such as {{"username":"NAME","password":"SECRET"}}')
    user = User(found["username"], found["password"], UserType.SUPER)
    try:
        check_user(user)
    except GantryError as error:
        raise ConfigError(f"{where}: {error}") from None
    return user
