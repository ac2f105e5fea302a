"""How visitors enter a console: identities, exposure and certificates, from options or from a broker's settings."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.network import Certificates, load_chain, server_context
from gantrymq.plugin.world import World
from gantrymq_console.access.accounts import Accounts, ProxyUsers
from gantrymq_console.access.exposure import Exposure, check, is_loopback, names_of, networks_of
from gantrymq_console.access.passwords import Checker
from gantrymq_console.access.user_file import FileUsers
from gantrymq_console.access.users import Everyone, Identities, Role

__all__ = ["Entrance", "EntranceOptions", "entrance", "entrance_of_broker"]

KEY_PASSWORD: Final = "GANTRYMQ_CONSOLE_TLS_KEY_PASSWORD"


@attrs.frozen
class EntranceOptions:
    """Options of ``gantrymq console``."""

    host: str  # of --listen
    state: Path
    no_login: bool = False
    host_names: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    user_header: str | None = None
    user_role: str | None = None


@attrs.frozen
class Entrance:
    """Who may enter, and how."""

    identities: Identities
    exposure: Exposure
    certificates: Certificates | None = None

    def new_code(self) -> str:
        """Return a code for the one-time link; empty if there is no such link."""
        accounts = self.identities
        return accounts.new_code() if isinstance(accounts, Accounts) and accounts.with_link else ""


def entrance(world: World, options: EntranceOptions, announce: Callable[[str], None]) -> Entrance:
    """Return the entrance of ``gantrymq console``; *announce* shows a one-time code where it was started.

    Raises:
        ConfigError: the console would be open to others, or an option cannot be used.
    """
    if options.tls_key and not options.tls_cert:
        raise ConfigError("--tls-key has no certificate: add --tls-cert")
    if options.user_role and not options.user_header:
        raise ConfigError("--user-role is for users that a proxy names: add --user-header, or leave it out")
    users = FileUsers(world, options.state, Checker(world.workers))
    with_password = users.table.with_password()
    proxies = networks_of(options.trusted_proxies)
    exposure = check(
        options.host,
        log_in=not options.no_login,
        users=with_password,
        user_header=bool(options.user_header),
        tls=bool(options.tls_cert),
        names=names_of(options.host_names),
        proxies=proxies,
    )
    certificates = None
    if options.tls_cert:
        certificates = https_certificates(
            world, options.tls_cert, options.tls_key or "", world.environ.get(KEY_PASSWORD, "")
        )
    if options.no_login:
        return Entrance(Everyone(), exposure, certificates)
    proxy = None
    if options.user_header:
        proxy = ProxyUsers(options.user_header.lower(), Role.of(options.user_role) if options.user_role else None)
    with_link = proxy is None and not with_password
    accounts = Accounts(world, users, users.user_of_token, proxy=proxy, announce=announce if with_link else None)
    return Entrance(accounts, exposure, certificates)


def entrance_of_broker(broker: Broker, host: str, state: Path) -> Entrance:
    """Return the entrance of the service in a broker's process.

    Without users everyone on the broker's machine may enter. HTTPS has the broker's certificate.

    Raises:
        ConfigError: others reach the address, and there is no user, or no certificate.
    """
    users = FileUsers(broker.world, state, Checker(broker.world.workers))
    settings = broker.settings
    local = is_loopback(host)
    cert = settings.text("tls.server.certPath")
    with_password = users.table.with_password()
    if not local and not (with_password and cert):
        raise ConfigError(
            f"other machines reach {host}, so the console needs a user (gantrymq console user add NAME --role admin "
            f"--state {state}) and a certificate (tls.server.certPath, tls.server.keyPath); or let it listen on "
            "127.0.0.1"
        )
    certificates = None
    if not local:
        key, password = settings.text("tls.server.keyPath"), settings.text("tls.server.keyPassword")
        certificates = https_certificates(broker.world, cert, key, password)
    own = frozenset({broker.world.host_name.lower()} if host in ("0.0.0.0", "::") else {host.lower()})
    exposure = Exposure(own, secure=certificates is not None)
    if not with_password:
        return Entrance(Everyone(), exposure)
    return Entrance(Accounts(broker.world, users, users.user_of_token), exposure, certificates)


def https_certificates(world: World, cert: str, key: str = "", password: str = "") -> Certificates:
    """Return the certificates of HTTPS; without *key* the key is in the file *cert*. Raises ConfigError."""

    def load() -> ssl.SSLContext:
        context = server_context("none", False, "")
        context.set_alpn_protocols(["http/1.1"])
        load_chain(context, cert, key, password, "tls.server")
        return context

    return Certificates(world.files, world.clock, [cert, key], load)
