"""Who can reach a console, and whether that is permitted.

On a loopback address a console needs a log-in or ``--no-login``. Visitors from elsewhere, directly or through a proxy,
need users and encryption: TLS of the console, or a trusted proxy that serves HTTPS.

Identities, exposure and certificates come from options, or from a broker's settings.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq.plugin.model import is_host_name
from gantrymq.plugin.network import Certificates, load_chain, server_context
from gantrymq.plugin.world import World
from gantrymq_console.access.accounts import Accounts, ProxyUsers
from gantrymq_console.access.cluster_accounts import ClusterAccounts
from gantrymq_console.access.passwords import Checker
from gantrymq_console.access.users import Everyone, FileUsers, Identities, Role

Networks: TypeAlias = "tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]"
USERS: Final = "users"  # of the console's file
CLUSTER: Final = "cluster"
KEY_PASSWORD: Final = "GANTRYMQ_CONSOLE_TLS_KEY_PASSWORD"


@attrs.frozen
class Exposure:
    """Under which names and how a console is reached."""

    hosts: frozenset[str] = frozenset()  # names that Host may have, besides loopback addresses
    secure: bool = False  # whether browsers use HTTPS: TLS of ours or of a trusted proxy
    proxies: Networks = ()  # addresses whose X-Forwarded-* headers count

    def is_proxy(self, address: str) -> bool:
        """Return whether *address* is a trusted proxy's."""
        if not self.proxies:
            return False
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self.proxies)


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def networks_of(texts: Iterable[str]) -> Networks:
    """Return the networks of ``--trusted-proxy``: addresses, or networks such as 10.0.0.0/8. Raises ConfigError."""
    found = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            raise ConfigError(
                f"--trusted-proxy {text}: this is neither an IP address nor a network such as 10.0.0.0/8"
            ) from None
        if network.prefixlen == 0:
            raise ConfigError(f"--trusted-proxy {text}: this trusts every address; name the proxy's address")
        found.append(network)
    return tuple(found)


def names_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of ``--host-name``, in lower case. Raises ConfigError: an address with scheme, port or path."""
    for text in texts:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            if not is_host_name(text):
                raise ConfigError(
                    f"--host-name {text}: write the name in the browser's address line without scheme, port and path, "
                    "such as console.example.com"
                ) from None
    return frozenset(text.lower() for text in texts)


def check(
    host: str,
    *,
    log_in: bool,
    users: Sequence[str],
    user_header: bool,
    tls: bool,
    names: frozenset[str],
    proxies: Networks,
    by_cluster: bool = False,
) -> Exposure:
    """Return the exposure of a console on *host*.

    Args:
        log_in: whether visitors have to log in.
        users: names of those who can.
        user_header: whether a proxy names the users.
        tls: whether the console serves HTTPS itself.
        names: public names.
        proxies: trusted proxies.
        by_cluster: whether users of the cluster log in.

    Raises:
        ConfigError: the console would be open to others; the sentence names the option to add.
    """
    if user_header and not proxies:
        raise ConfigError(
            "--user-header counts in requests of trusted proxies only: add --trusted-proxy with the proxy's address"
        )
    if user_header and not log_in:
        raise ConfigError("--no-login and --user-header exclude each other: leave one of them out")
    local = is_loopback(host) and not proxies
    where = f"on {host}" if not is_loopback(host) else "through a proxy"
    if not local and not log_in:
        raise ConfigError(
            f"--no-login is for a console that only this machine reaches, and others reach this one {where}: leave "
            "--no-login out"
        )
    if by_cluster and (user_header or not log_in):
        option = "--user-header" if user_header else "--no-login"
        raise ConfigError(f"--login cluster and {option} exclude each other: leave one of them out")
    if not local and not user_header and not users and not by_cluster:
        raise ConfigError(
            f"others reach this console {where}, and there is no user who could log in: add one with `gantrymq console "
            "user add NAME --role admin` (with the same --state, if any), or let a trusted proxy name the users with "
            "--user-header"
        )
    if not is_loopback(host) and not tls and not proxies:
        raise ConfigError(
            f"passwords would cross the network unencrypted {where}: add --tls-cert and --tls-key, or, behind a proxy "
            "that serves HTTPS, --trusted-proxy with its address"
        )
    own = frozenset() if is_loopback(host) or host in ("", "0.0.0.0", "::") else frozenset({host.lower()})
    return Exposure(names | own, secure=tls or bool(proxies), proxies=proxies)


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
    login: str = USERS  # whose names and passwords count: USERS or CLUSTER


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


def entrance(world: World, namesrv: str, options: EntranceOptions, announce: Callable[[str], None]) -> Entrance:
    """Return the entrance of ``gantrymq console``.

    Args:
        world: of the console.
        namesrv: the name servers of the cluster.
        options: of the command.
        announce: shows a one-time code where the console was started.

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
        by_cluster=options.login == CLUSTER,
    )
    certificates = None
    if options.tls_cert:
        certificates = https_certificates(
            world, options.tls_cert, options.tls_key or "", world.environ.get(KEY_PASSWORD, "")
        )
    if options.no_login:
        return Entrance(Everyone(), exposure, certificates)
    if options.login == CLUSTER:
        return Entrance(ClusterAccounts(world, namesrv), exposure, certificates)
    proxy = None
    if options.user_header:
        proxy = ProxyUsers(options.user_header.lower(), Role.of(options.user_role) if options.user_role else None)
    with_link = proxy is None and not with_password
    accounts = Accounts(world, users, users.user_of_token, proxy=proxy, announce=announce if with_link else None)
    return Entrance(accounts, exposure, certificates)


def entrance_of_broker(broker: BrokerEnvironment, host: str, state: Path) -> Entrance:
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
