"""``gantrymq user``: the users of a cluster with access control, of ours and of RocketMQ from 5.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from shlex import quote
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.plugin.commands import CommandGroup, print_json, read_duration_ms, say, warn
from gantrymq_access.administration import (
    create_user,
    delete_user,
    keeps_old_secrets,
    update_user,
    user_of,
    users_of,
)
from gantrymq_access.commands.options import (
    ABSENT,
    CREATED,
    DELETED,
    UNCHANGED,
    UPDATED,
    Place,
    ask_each,
    at_each,
    brokers_text,
    check_equal,
    copy_options,
    places_of,
    places_to_copy_to,
    show_rows,
    user_named,
)
from gantrymq_access.commands.secrets import HIDDEN, SecretSource, secret_options, show_secrets_option
from gantrymq_access.records import User, UserChange, UserStatus, UserType, check_secret
from gantrymq_admin.commands.lists import Columns, local_times, print_records
from gantrymq_admin.commands.options import admin_command, where_options

_COLUMNS: Final[Columns] = (
    *("user", "type", "status", "secret"),
    *(("Old secret until", local_times("old_secret_until_ms")), "certificate", "brokers"),
)
_MOST_KEPT_MS: Final = 30 * 86_400_000

type_option = click.option(
    "--type",
    "kind",
    type=click.Choice([each.value for each in UserType], case_sensitive=False),
    help="Super users may do everything; policies are for normal users.",
)
check_option = click.option("--check", is_flag=True, help="Show the differences between brokers; exit with 1 if any.")
certificate_option = click.option(
    "--certificate",
    metavar="SUBJECT",
    help="Subject of the TLS certificate that is this user, such as CN=orders,O=Shop; brokers of GantryMQ only.",
)


@click.group(cls=CommandGroup)
def user() -> None:
    """Create, change, list and delete the users of a cluster with access control.

    Commands act on the masters of the cluster, or on one broker with -b. The caller is the user of
    $GANTRYMQ_ACCESS_KEY and $GANTRYMQ_SECRET_KEY, which must be allowed to do it: Cluster Update, and a Super user to
    read secrets.
    """


@user.command()
@user_named()
@secret_options
@type_option
@click.option("--disabled", is_flag=True, help="The user cannot log in before: gantrymq user update USER --enable")
@certificate_option
@where_options
@admin_command
async def create(
    admin: Admin,
    name: str,
    secret: SecretSource,
    kind: str | None,
    disabled: bool,
    certificate: str | None,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Create a user. The secret is asked for on a terminal unless an option says where it is.

    A user without policies may do nothing: gantrymq acl grant gives it the entries that a task needs.
    """
    places = await places_of(admin, cluster, broker)
    if secret.generate:
        known_at = (await ask_each(places, lambda address: user_of(admin, address, name))).found
        place = next((place for place, known in known_at.items() if known is not None), None)
        if place is not None:
            raise ClientError(
                f"{place.title} has user {name} already; change it: gantrymq user update {quote(name)}, or "
                f"give it to the other brokers: gantrymq user copy {quote(name)} --from {place.address}; "
                "nothing was changed"
            )
    status = UserStatus.DISABLE if disabled else UserStatus.ENABLE
    new = User(name, _checked(secret.read(name)), UserType(kind or "Normal"), status, certificate=certificate or "")

    async def at(address: str) -> str:
        known = await user_of(admin, address, name)
        if known is not None:
            if _same(known, new):
                return UNCHANGED
            raise InvalidParameter(
                f"user {name} exists with other values; change it: gantrymq user update {quote(name)}"
            )
        await create_user(admin, address, new)
        return CREATED

    rows = await at_each(places, at)
    if secret.generate and output == "text":
        click.echo(f"secret of {name}: {new.secret}")
    show_rows(rows, {"user": name, "type": new.type.value, **_generated(secret, new.secret)}, output)


@user.command()
@user_named()
@secret_options
@type_option
@click.option("--enable/--disable", default=None, help="Whether the user may log in.")
@certificate_option
@where_options
@admin_command
async def update(
    admin: Admin,
    name: str,
    secret: SecretSource,
    kind: str | None,
    enable: bool | None,
    certificate: str | None,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Change the type, the status, the certificate or the secret of a user; what is not named stays.

    A new secret ends the old one at once; gantrymq user rotate keeps it valid for some time.
    """
    status = None if enable is None else (UserStatus.ENABLE if enable else UserStatus.DISABLE)
    new_secret = _checked(secret.read(name)) if secret.named else None
    change = UserChange(new_secret, UserType(kind) if kind else None, status, certificate)
    if change == UserChange():
        raise click.UsageError("name what to change: --type, --enable, --disable, --certificate, --secret-file, ...")
    places = await places_of(admin, cluster, broker)
    rows = await at_each(places, lambda address: _update(admin, address, name, change))
    if secret.generate and output == "text":
        click.echo(f"secret of {name}: {change.secret}")
    show_rows(rows, {"user": name, **_generated(secret, change.secret)}, output)


@user.command()
@user_named()
@secret_options
@click.option(
    "--keep",
    metavar="TIME",
    callback=lambda _context, _option, text: text and read_duration_ms(text),
    help="How long the old secret remains valid, such as 24h; at once invalid without it.",
)
@where_options
@admin_command
async def rotate(
    admin: Admin,
    name: str,
    secret: SecretSource,
    keep: int | None,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Give a user a new secret, and keep the old one valid for the time in which its clients change.

    Brokers of RocketMQ replace a secret at once: with --keep they are refused before anything is changed.
    """
    if keep is not None and keep > _MOST_KEPT_MS:
        raise click.BadParameter(f"at most {timedelta(milliseconds=_MOST_KEPT_MS).days}d", param_hint="--keep")
    change = UserChange(_checked(secret.read(name)), keep_old_ms=keep or 0)
    places = await places_of(admin, cluster, broker)
    if keep:
        for place in places:
            if not await keeps_old_secrets(admin, place.address):
                raise ClientError(
                    f"{place.title} is RocketMQ's, which replaces a secret at once: leave out --keep, or create a "
                    "second user for the change; nothing was changed"
                )
    rows = await at_each(places, lambda address: _update(admin, address, name, change))
    if secret.generate and output == "text":
        click.echo(f"secret of {name}: {change.secret}")
    show_rows(rows, {"user": name, "keep_ms": keep or 0, **_generated(secret, change.secret)}, output)


@user.command()
@user_named()
@where_options
@admin_command
async def delete(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str) -> None:
    """Delete a user and its policies. Its connections end within a second at brokers of GantryMQ."""
    places = await places_of(admin, cluster, broker)

    async def at(address: str) -> str:
        if await user_of(admin, address, name) is None:
            return ABSENT
        await delete_user(admin, address, name)
        return DELETED

    rows = await at_each(places, at)
    if all(each.result == ABSENT for each in rows):
        raise _no_user(name)
    show_rows(rows, {"user": name}, output)


@user.command("list")
@click.option("--contains", metavar="TEXT", default="", help="Only users with TEXT in their name.")
@show_secrets_option
@check_option
@where_options
@admin_command
async def list_users(
    admin: Admin, contains: str, show_secrets: bool, check: bool, cluster: str | None, broker: str | None, output: str
) -> None:
    """List the users, and the brokers that have them."""
    places = await places_of(admin, cluster, broker)
    answers = await ask_each(places, lambda address: users_of(admin, address, contains))
    _show(answers.found, answers.failed, show_secrets, check, output)


@user.command()
@user_named()
@show_secrets_option
@check_option
@where_options
@admin_command
async def get(
    admin: Admin, name: str, show_secrets: bool, check: bool, cluster: str | None, broker: str | None, output: str
) -> None:
    """Show one user, and the brokers that have it."""
    places = await places_of(admin, cluster, broker)
    answers = await ask_each(places, lambda address: user_of(admin, address, name))
    found = {place: () if each is None else (each,) for place, each in answers.found.items()}
    if not any(found.values()):
        raise _no_user(name)
    _show(found, answers.failed, show_secrets, check, output)


@user.command()
@copy_options("users")
@where_options
@admin_command
async def copy(
    admin: Admin, names: Sequence[str], origin: str, cluster: str | None, broker: str | None, output: str
) -> None:
    """Copy users with their secrets from one broker to the masters of the cluster, or to one broker; all without names.

    Needs a Super user at the broker they come from, because only such a user reads secrets. Policies are copied by
    gantrymq acl copy.
    """
    found = {each.name: each for each in await users_of(admin, origin)}
    missing = [each for each in names if each not in found]
    if missing:
        raise ClientError(f"{origin} has no user {missing[0]}; 'gantrymq user list -b {origin}' shows its users")
    chosen = [found[each] for each in names or found]
    unreadable = [each.name for each in chosen if not each.secret]
    if unreadable:
        raise ClientError(
            f"{origin} does not show the secret of {unreadable[0]}: only a Super user reads secrets; set "
            "$GANTRYMQ_ACCESS_KEY and $GANTRYMQ_SECRET_KEY to one"
        )
    places = await places_to_copy_to(admin, cluster, broker, origin)

    async def at(address: str) -> str:
        results = [await _copy(admin, address, each) for each in chosen]
        counts = Counter(results)
        if set(counts) == {UNCHANGED}:
            return UNCHANGED
        return ", ".join(f"{number} {word}" for word, number in counts.items())

    rows = await at_each(places, at)
    show_rows(rows, {"from": origin, "users": [each.name for each in chosen]}, output)


async def _copy(admin: Admin, address: str, wanted: User) -> str:
    known = await user_of(admin, address, wanted.name)
    if known is None:
        await create_user(admin, address, wanted)
        return CREATED
    if _same(known, wanted):
        return UNCHANGED
    await update_user(admin, address, wanted.name, UserChange(wanted.secret, wanted.type, wanted.status))
    return UPDATED


async def _update(admin: Admin, address: str, name: str, change: UserChange) -> str:
    known = await user_of(admin, address, name)
    if known is None:
        raise _no_user(name)
    wanted = attrs.evolve(
        known,
        secret=change.secret or known.secret,
        type=change.type or known.type,
        status=change.status or known.status,
        certificate=known.certificate if change.certificate is None else change.certificate,
    )
    if known.secret and wanted == known:
        return UNCHANGED
    await update_user(admin, address, name, change)
    return UPDATED


def _same(known: User, wanted: User) -> bool:
    """Return whether a broker has a user as it is wanted; its secret is not known if it was not shown."""
    return bool(known.secret) and known == attrs.evolve(
        wanted, old_secret=known.old_secret, old_secret_until_ms=known.old_secret_until_ms
    )


def _checked(secret: str) -> str:
    check_secret(secret)
    return secret


def _generated(source: SecretSource, secret: str | None) -> dict[str, str | None]:
    return {"secret": secret} if source.generate else {}


def _no_user(name: str) -> ClientError:
    return ClientError(f"there is no user {name}; 'gantrymq user list' shows the users")


# --- lists ------------------------------------------------------------------------------------------------------------


def _show(
    found: Mapping[Place, Sequence[User]], failed: Mapping[Place, str], show_secrets: bool, check: bool, output: str
) -> None:
    differences = _differences(found)
    if output == "json":
        print_json(
            {
                "brokers": [
                    {
                        "broker": place.broker,
                        "address": place.address,
                        "users": [_document(each, show_secrets) for each in users],
                        "problem": None,
                    }
                    for place, users in found.items()
                ]
                + [
                    {"broker": place.broker, "address": place.address, "users": None, "problem": problem}
                    for place, problem in failed.items()
                ],
                "differences": differences,
            }
        )
    if check:
        check_equal(differences, failed, "users", "gantrymq user copy USER --from ADDR makes them equal", output)
    if check or output == "json":
        return
    rows: dict[User, list[Place]] = {}
    ends: dict[User, int] = {}  # each broker ends an old secret by its own clock: the first one is shown
    for place, users in found.items():
        for each in users:
            alike = attrs.evolve(each, old_secret_until_ms=min(each.old_secret_until_ms, 1))
            rows.setdefault(alike, []).append(place)
            ends[alike] = min(ends.get(alike, each.old_secret_until_ms), each.old_secret_until_ms)
    print_records(
        [
            {
                **_document(each, show_secrets),
                "old_secret_until_ms": ends[each] or None,
                "secret": (each.secret or None) if show_secrets else HIDDEN,
                "brokers": brokers_text(rows[each], list(found)),
            }
            for each in sorted(rows, key=lambda user: user.name)
        ],
        _COLUMNS,
    )
    for place, users in found.items():
        if not users:
            advice = f"'gantrymq user copy --from ADDR -b {place.address}' copies those of another broker"
            say(f"{place.title} has no such users; {advice}")
    if differences:
        warn("the brokers differ: see --check")


def _document(user: User, show_secrets: bool) -> dict[str, Any]:
    return {
        "user": user.name,
        "type": user.type.value,
        "status": user.status.value,
        "secret": user.secret or None if show_secrets else None,
        "old_secret_until_ms": user.old_secret_until_ms or None,
        "certificate": user.certificate or None,
    }


def _differences(found: Mapping[Place, Sequence[User]]) -> list[dict[str, str]]:
    """Return what brokers have differently from the first one that has a user."""
    by_place = {place: {each.name: each for each in users} for place, users in found.items()}
    reference: dict[str, tuple[Place, User]] = {}
    for place, users in by_place.items():
        for name, each in users.items():
            reference.setdefault(name, (place, each))
    differences = []
    for name, (first, wanted) in sorted(reference.items()):
        for place, users in by_place.items():
            known = users.get(name)
            sentence = _difference(known, wanted, first)
            if sentence:
                where = {"broker": place.broker, "address": place.address}
                differences.append({**where, "what": f"User:{name}", "difference": sentence})
    return differences


def _difference(known: User | None, wanted: User, first: Place) -> str:
    if known is None:
        return f"missing; {first.title} has it"
    words = []
    if known.secret != wanted.secret:
        words.append("another secret")
    words += [
        f"{name} {mine}, not {theirs}"
        for name, mine, theirs in (
            ("type", known.type.value, wanted.type.value),
            ("status", known.status.value, wanted.status.value),
            ("certificate", known.certificate or "none", wanted.certificate or "none"),
        )
        if mine != theirs
    ]
    return f"{', '.join(words)} as at {first.title}" if words else ""
