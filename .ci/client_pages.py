"""Generate the client's API reference from its docstrings: docs/client-api.md and docs/client-api-*.md.

    python .ci/client_pages.py

`PAGES` assigns names to pages; an exported name without a page is an error. Signatures, types and defaults come from
the code, descriptions from docstrings and the comments of fields. Needs opentelemetry-api, for its page.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import attrs

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BASE = "gantrymq.client.connection.base.BaseClient"
ADMIN, RECORDS, SYNC = "gantrymq.client.admin", "gantrymq.client.tracing.records", "gantrymq.client.sync"
WIDTH = 100  # of a signature
SHOWN_DUNDERS = ("__aiter__", "__iter__", "__call__")
HIDDEN = {"start_in", "closed_by", "portions", "to_json", "from_json", "close_part", "keep", "settle", "put_back"}


class Page(NamedTuple):
    """One page: its title, its introduction, and its names, of `gantrymq.client` unless qualified."""

    title: str
    intro: str
    names: tuple[str, ...]


PAGES = {
    "client-api": Page(
        "API: client, messages, errors",
        "The exports of `gantrymq.client`, generated from docstrings by `.ci/client_pages.py`; start with "
        "[client.md](client.md). A name in `code` without a link belongs to the same class, or to the package.",
        (
            *("Client", BASE, "Message", "ReceivedMessage", "MessageQueue", "ConnectOptions", "Credentials"),
            *("TlsClient", "ClientError", "InvalidParameter", "MessageIllegal", "NoPermission", "NoRoute"),
            *("BrokerRefused", "ConnectFailed", "ConnectionLost", "CallTimeout", "SendFailed"),
            *("OptionUnusable", "PluginAbsent", "SubscriptionParseFailed"),
        ),
    ),
    "client-api-producing": Page(
        "API: producing",
        "Producers ([client-producing.md](client-producing.md)).",
        (
            *("Producer", "ProducerSettings", "Batching", "SendResult", "SendStatus", "Balancing", "Selector"),
            *("by_key", "at_random", "reply_to", "TransactionProducer", "Transaction", "TransactionState"),
        ),
    ),
    "client-api-consuming": Page(
        "API: consuming and reading",
        "Consumers of groups ([client-consuming.md](client-consuming.md)), readers "
        "([client-reading.md](client-reading.md)) and idempotent handlers "
        "([client-idempotent.md](client-idempotent.md)).",
        (
            *("Consumer", "ConsumerSettings", "ReconsumeLater", "PopConsumer", "LitePullConsumer", "Reader"),
            *("PullResult", "PullStatus", "PulledRecords", "Subscription", "idempotent", "Idempotent"),
            *("SqliteRecords", "SqlAlchemyRecords", "ThreadConnection"),
        ),
    ),
    "client-api-admin": Page(
        "API: administration",
        "`client.admin`, with the types of its arguments and results ([client-admin.md](client-admin.md)). Names that "
        f"`gantrymq.client` does not export are in `{ADMIN}`.",
        ("Admin", "TopicConfig", "GroupConfig", "OffsetTarget", "QueueStats"),
    ),
    "client-api-tracing": Page(
        "API: hooks and tracing",
        "Hooks for sends and consumption, and message trace ([client-tracing.md](client-tracing.md)). Trace records "
        f"are in `{RECORDS}`, `OpenTelemetry` is in `gantrymq.client.opentelemetry`.",
        (
            *(
                "SendHook",
                "ConsumeHook",
                "ProcessHook",
                "TransactionHook",
                "SendContext",
                "ConsumeContext",
                "ConsumeOutcome",
            ),
            *("EndTransactionContext", "MessageTrace", "decode_trace"),
            *(f"{RECORDS}.{name}" for name in ("Pub", "SubBefore", "SubAfter", "EndTransaction", "MessageType")),
            "gantrymq.client.opentelemetry.OpenTelemetry",
        ),
    ),
    "client-api-sync": Page(
        "API: the client for threads",
        f"The exports of `{SYNC}` ([client-sync.md](client-sync.md)). Details of a method, and its errors, are "
        "described with the method of the same name in `gantrymq.client`. `Message` and `ReceivedMessage` are those of "
        "`gantrymq.client`. Objects that a `Client` creates are used as ``with``, and also have `close`, `is_started`, "
        "`name_servers`, `set_name_servers` and `wait_ready`, like the client.",
        (),
    ),
}

OPTIONS_OF = {  # pages that describe the options of a TypedDict
    "ProducerOptions": "Producer",
    "SettingOptions": "Consumer",
    "GroupOptions": "Consumer",
    "ConnectOptions": "ConnectOptions",
    "PopOptions": "PopConsumer",
    "ReaderOptions": "Reader",
}
WATCHED = {"hooks": "()", "trace": "False"}


def main() -> None:
    for name, text in pages():
        (DOCS / f"{name}.md").write_text(text)


def pages() -> Iterator[tuple[str, str]]:
    """Each page's name, without ``.md``, and its text."""
    placed = {name: page for page in PAGES for name in names_on(page)}
    missing = sorted(set(import_module("gantrymq.client").__all__) - placed.keys())
    if missing:
        sys.exit(f"no page of the client's API reference has {', '.join(missing)}: add them to PAGES")
    for page in PAGES:
        yield page, page_text(page, placed)


def names_on(page: str) -> tuple[str, ...]:
    names = PAGES[page].names
    if page == "client-api-admin":
        more = (name for name in import_module(ADMIN).__all__ if name not in names)
        return (*names, *(f"{ADMIN}.{name}" for name in more))
    if page == "client-api-sync":
        shared = ("Message", "ReceivedMessage")
        return tuple(f"{SYNC}.{name}" for name in import_module(SYNC).__all__ if name not in shared)
    return names


def found(name: str) -> Any:
    home, _, last = name.rpartition(".")
    return getattr(import_module(home or "gantrymq.client"), last)


def page_text(page: str, placed: dict[str, str]) -> str:
    title, intro, _ = PAGES[page]
    names = names_on(page)
    parts = [f"# {title}", "\n".join(textwrap.wrap(code(intro), 120, break_long_words=False, break_on_hyphens=False))]
    if page == "client-api":
        others = [f"| [{other}.md]({other}.md) | {listed(other)} |" for other in PAGES if other != page]
        parts.append("\n".join(["| page | what is there |", "|---|---|", *others]))
    constants = [name for name in names if not callable(found(name))]
    errors = [name for name in names if is_error(found(name))]
    for name in names:
        if name not in errors and name not in constants:
            parts.append(section(name, found(name), page, placed))
    if errors:
        parts += ["## Errors", error_table(errors)]
    if constants:
        rows = [f"| `{name.rpartition('.')[2]}` | `{found(name)!r}` |" for name in constants]
        parts += ["## Values", "\n".join(["| name | value |", "|---|---|", *rows])]
    aliases = alias_table(names)
    if aliases:
        parts += ["## Types in signatures", aliases]
    return "\n\n".join(parts) + "\n"


def listed(page: str) -> str:
    seen: set[str] = set()
    links = []
    for name in names_on(page):
        if callable(found(name)) and not is_error(found(name)):
            last = name.rpartition(".")[2]
            again = "-1" if anchor(last) in seen else ""  # GitHub's, of a heading that differs in its case only
            links.append(f"[{last}]({page}.md#{anchor(last)}{again})")
            seen.add(anchor(last))
    return ", ".join(links)


def anchor(text: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception) and thing.__name__ != "ReconsumeLater"


# --- one name ---------------------------------------------------------------------------------------------------------


def section(name: str, thing: Any, page: str, placed: dict[str, str]) -> str:
    last = name.rpartition(".")[2]
    if name == BASE:
        head = (
            "## Common methods\n\nClients, producers, consumers, readers and `Admin` are used as "
            "``async with``, or between `start` and `close`:"
        )
        return "\n\n".join([code(head), *methods(thing, last, page, placed)])
    if not isinstance(thing, type):
        return "\n\n".join([f"## {last}", fenced(signature(last, thing)), *prose(thing.__doc__)])
    parts = [f"## {last}"]
    if has_constructor(thing):
        init = inspect.signature(thing.__init__)  # type: ignore[misc]  # of a class that is looked at, not made
        parts.append(fenced(signature(last, thing.__init__, init.replace(return_annotation=inspect.Signature.empty))))
    parts += prose(thing.__doc__)
    if has_constructor(thing) and thing.__init__.__doc__:
        parts += prose(thing.__init__.__doc__)
        parts += options(thing.__init__, page, placed)
    if last == "ProducerSettings" or last == "ConsumerSettings":
        parts.append(f"Its fields are the options of [{last[:8]}](#{last[:8].lower()}), with the same defaults.")
    else:
        parts += fields(thing)
    return "\n\n".join([*parts, *methods(thing, last, page, placed)])


def has_constructor(thing: type) -> bool:
    """Return whether programs create it, rather than a `Client` of threads."""
    return not is_plain(thing) and (not thing.__module__.startswith(SYNC) or thing.__name__ == "Client")


def is_plain(thing: type) -> bool:
    """Return whether its fields or members describe everything that its constructor could."""
    named = hasattr(thing, "_fields") or hasattr(thing, "__required_keys__")
    return (
        named
        or attrs.has(thing)
        or issubclass(thing, enum.Enum)
        or getattr(thing, "_is_protocol", False)
        or thing.__init__ is object.__init__  # type: ignore[misc]
    )


def prose(doc: str | None) -> list[str]:
    """A docstring in Markdown, paragraph by paragraph."""
    parts = []
    for part in re.split(r"\n(?=(?:Args|Returns|Raises|Attributes):\n)", inspect.cleandoc(doc or "")):
        head, _, rest = part.partition("\n")
        if re.fullmatch(r"(Args|Returns|Raises|Attributes):", head):
            parts.append(f"**{head[:-1]}**")
            body, _, after = re.sub(r"^    ", "", rest, flags=re.MULTILINE).partition("\n\n")
            parts.append(code(body) if head == "Returns:" else points(body))
            if after:
                parts.append(code(after))
        elif part.strip():
            parts.append(code(part.strip()))
    return parts


def points(body: str) -> str:
    """Format ``name: meaning`` lines, with continuation lines, as a list."""
    entries: list[str] = []
    for line in body.splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    shown = []
    for entry in entries:
        name, colon, meaning = entry.partition(": ")
        name = ", ".join(
            f"`{word.strip('*`')}`" if re.fullmatch(r"[\w*`]+", word) else word for word in name.split(", ")
        )
        shown.append(f"- {name}{colon}{code(meaning)}".rstrip())
    return "\n".join(shown)


def code(text: str) -> str:
    """reST's double backticks as Markdown's single ones; variables of the environment in such as well."""
    pieces = re.sub(r"``([^`]+)``", r"`\1`", text).split("`")
    return "`".join(
        [re.sub(r"\$[A-Z_]+", r"`\g<0>`", piece) if n % 2 == 0 else piece for n, piece in enumerate(pieces)]
    )


def cell(text: str) -> str:
    return code(" ".join(text.split())).replace("|", "\\|")


def first_sentence(doc: str | None) -> str:
    text = " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split())
    sentence = re.match(r"(.*?\.)(?= [A-Z`*]|$)", text)
    return sentence[1] if sentence else text


def fenced(text: str) -> str:
    return f"```\n{text}\n```"


# --- signatures -------------------------------------------------------------------------------------------------------


def signature(name: str, function: Callable[..., Any], shape: inspect.Signature | None = None) -> str:
    """Format a signature on one line if it fits, else with one parameter per line."""
    shape = shape or inspect.signature(function)
    plain = inspect.unwrap(function)
    word = "async " if inspect.iscoroutinefunction(plain) else ""
    if hasattr(function, "__wrapped__") and inspect.isasyncgenfunction(plain):
        word = "async with "
    elif hasattr(function, "__wrapped__") and inspect.isgeneratorfunction(plain):
        word = "with "
    parameters, starred = [], False
    for each in shape.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f"{' = ' if kind else '='}{shown_value(each.default)}"
        parameters.append(f"{mark}{each.name}{kind}{default}")
    returns = "" if shape.return_annotation is shape.empty else f" -> {shape.return_annotation}"
    line = f"{word}{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{word}{name}(", *(f"    {each}," for each in parameters), f"){returns}"])


def shown_value(value: Any) -> str:
    return str(value) if isinstance(value, enum.Enum) else repr(value)


def methods(thing: type, last: str, page: str, placed: dict[str, str]) -> list[str]:
    shown = {name: member for name, member in members(thing) if not is_common(thing, name, member)}
    if not shown:
        return []
    brief = page == "client-api-sync"  # described on another page
    title = "method" if any(callable(member) for member in shown.values()) else "property"
    rows, details = [], list[str]()
    for name, member in shown.items():
        told = prose(doc_of(member))
        if brief and len(told) == 1:
            rows.append(f"| `{name}` | {cell(told[0])} |")
            continue
        rows.append(f"| [`{name}`](#{anchor(f'{last}.{name}')}) | {cell(first_sentence(doc_of(member)))} |")
        details.append(f"### `{last}.{name}`")
        if not brief:
            details.append(fenced(member_shown(name, member)))
        details += told
        if callable(member):
            details += options(member, page, placed)
    signatures = [fenced("\n".join(member_shown(name, member) for name, member in shown.items()))] if brief else []
    return [*signatures, "\n".join([f"| {title} | |", "|---|---|", *rows]), *details]


def member_shown(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"{name}: {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
    return signature(name, member)


def doc_of(member: Any) -> str | None:
    return member.__doc__ if isinstance(member, property) else inspect.unwrap(member).__doc__


def is_common(thing: type, name: str, member: Any) -> bool:
    """Return whether every client has it, without a description of its own."""
    base = found(BASE)
    if thing.__module__.startswith(SYNC):
        return name in vars(base) and thing.__name__ not in ("Client", "MessageStream")
    if thing is base:
        return False
    own = vars(base).get(name)
    if own is None or member is own:
        return own is not None
    return isinstance(member, property) == isinstance(own, property) and doc_of(member) == doc_of(own)


def members(thing: type) -> list[tuple[str, Any]]:
    """Return public methods and properties, those of bases first; overridden ones once."""
    taken: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        if not base.__module__.startswith("gantrymq"):
            continue
        for name, member in vars(base).items():
            if isinstance(member, classmethod | staticmethod):
                member = getattr(thing, name)
            is_member = isinstance(member, property) or inspect.isroutine(member)
            if not is_member or name in HIDDEN or (name.startswith("_") and name not in SHOWN_DUNDERS):
                continue
            if getattr(member, "__doc__", None):
                taken[name] = member
    return list(taken.items())


# --- fields and options -----------------------------------------------------------------------------------------------


def words_beside(thing: type) -> dict[str, tuple[str, str]]:
    """Return for each annotated field of a class its type as written, and the docstring below it or the comment beside
    it."""
    source = textwrap.dedent(inspect.getsource(thing))
    lines = source.splitlines()
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    beside: dict[str, tuple[str, str]] = {}
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            name, kind = ast.unparse(statement.targets[0]), ""
        elif isinstance(statement, ast.AnnAssign):
            name, kind = ast.unparse(statement.target), ast.unparse(statement.annotation)
        else:
            continue
        comment = lines[(statement.end_lineno or 1) - 1][statement.end_col_offset or 0 :].partition("#")[2]
        text = comment.strip()
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = str(following.value.value)
        beside[name] = (kind, text)
    return beside


def fields(thing: type) -> list[str]:
    if issubclass(thing, enum.Enum):
        beside = words_beside(thing)
        rows = [f"| `{each.name}` | `{each.value!r}` | {cell(beside[each.name][1])} |" for each in thing]
        return ["\n".join(["| member | value | |", "|---|---|---|", *rows])]
    if hasattr(thing, "__required_keys__"):
        return [option_table(option_rows(thing))]
    if attrs.has(thing):
        shown = {each.name: each.default for each in attrs.fields(thing)}
    elif hasattr(thing, "_fields"):
        shown = {name: thing._field_defaults.get(name, attrs.NOTHING) for name in thing._fields}
    else:
        return []
    beside = {
        name: words
        for base in reversed(thing.__mro__)
        if has_fields(base)
        for name, words in words_beside(base).items()
    }
    rows = []
    for name, default in shown.items():
        if not name.startswith("_"):
            kind, text = beside[name]
            rows.append(f"| `{name}` | `{cell(kind)}` | {default_shown(default)} | {cell(text)} |")
    return ["\n".join(["| field | type | default | |", "|---|---|---|---|", *rows])]


def has_fields(base: type) -> bool:
    return base.__module__.startswith("gantrymq") and (attrs.has(base) or hasattr(base, "_fields"))


def default_shown(default: Any) -> str:
    if default is attrs.NOTHING:
        return ""
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return f"`{default.factory()!r}`"
    return f"`{cell(shown_value(default))}`"


def option_rows(options: type) -> list[tuple[str, str, str, str]]:
    """Return name, type, default and description of the options of this TypedDict, without those of its bases."""
    from gantrymq.client.calls.connection_config import ConnectionConfig
    from gantrymq.client.group.settings import ConsumerSettings
    from gantrymq.client.sending.producer_settings import ProducerSettings

    explained: dict[str, type] = {
        "ProducerOptions": ProducerSettings,
        "SettingOptions": ConsumerSettings,
        "ConnectOptions": ConnectionConfig,
    }
    own = words_beside(options)
    source = explained.get(options.__name__)
    beside = words_beside(source) if source is not None and options.__name__ != "ConnectOptions" else own
    rows = []
    for name, (kind, _) in own.items():
        default = f"`{WATCHED[name]}`" if source is None else default_shown(getattr(attrs.fields(source), name).default)
        rows.append((name, kind, default, beside[name][1]))
    return rows


def option_table(rows: Iterable[tuple[str, str, str, str]]) -> str:
    shown = [f"| `{name}` | `{cell(kind)}` | {default} | {cell(meaning)} |" for name, kind, default, meaning in rows]
    return "\n".join(["| option | type | default | |", "|---|---|---|---|", *shown])


def options(function: Callable[..., Any], page: str, placed: dict[str, str]) -> list[str]:
    """Return a table of the options of ``**options: Unpack[...]``, or a link to it."""
    last = list(inspect.signature(function).parameters.values())[-1:]
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(last[0].annotation)) if last else None
    if unpacked is None:
        return []
    rows: list[tuple[str, str, str, str]] = []
    elsewhere: list[str] = []
    owner = function.__qualname__.partition(".")[0] if function.__name__ == "__init__" else ""
    for part in leaves(inspect.getmodule(inspect.unwrap(function)), unpacked[1]):
        home = OPTIONS_OF.get(part.__name__, owner)
        if home in (owner, "") and home != "ConnectOptions":
            rows += option_rows(part)
        else:
            where = "" if placed[home] == page else f"{placed[home]}.md"
            elsewhere.append(f"[{home}]({where}#{anchor(home)})")
    named = f"**{last[0].name}**"
    if elsewhere:
        named += f": {'also ' if rows else ''}those of {', and of '.join(elsewhere)}."
    return [named, option_table(rows)] if rows else [named]


def leaves(module: Any, name: str) -> list[type]:
    """Return the TypedDict called *name* and its bases."""
    given = getattr(module, name, None) or typed_dict(module, name)
    (node,) = ast.parse(inspect.getsource(given)).body
    assert isinstance(node, ast.ClassDef)
    bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != "TypedDict"]
    return [leaf for base in bases for leaf in leaves(sys.modules[given.__module__], base)] or [given]


def typed_dict(module: Any, name: str) -> Any:
    """One that *module* imports for type checkers only."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            return getattr(import_module(node.module or ""), name)
    raise LookupError(f"{module.__name__} has no {name}")


# --- tables of a page -------------------------------------------------------------------------------------------------


def error_table(names: Iterable[str]) -> str:
    rows = []
    for name in names:
        thing = found(name)
        bases = ", ".join(f"`{base.__name__}`" for base in thing.__bases__)
        told = " ".join(code(part) for part in prose(thing.__doc__) if not part.startswith("**"))
        rows.append(f"| `{thing.__name__}` | {bases} | {cell(told)} |")
    return "\n".join(["| error | is a | when, and what it has |", "|---|---|---|", *rows])


def alias_table(names: Iterable[str]) -> str:
    """Short names that signatures use, written out."""
    words: set[str] = set()
    modules = []
    for name in names:
        thing = found(name)
        if not callable(thing):
            continue
        modules.append(sys.modules[thing.__module__])
        if isinstance(thing, type):
            modules += [
                sys.modules[base.__module__] for base in thing.__mro__ if base.__module__.startswith("gantrymq")
            ]
            for _, member in [*members(thing), ("", thing.__init__)]:  # type: ignore[misc]
                function = member.fget if isinstance(member, property) else inspect.unwrap(member)
                words.update(re.findall(r"\w+", " ".join(map(str, getattr(function, "__annotations__", {}).values()))))
            if has_fields(thing):
                words.update(re.findall(r"\w+", " ".join(kind for kind, _ in words_beside(thing).values())))
        else:
            words.update(re.findall(r"\w+", " ".join(map(str, getattr(thing, "__annotations__", {}).values()))))
    shown: dict[str, str] = {}
    for module in dict.fromkeys(modules):
        shown.update(aliases_in(module, words, set()))
    return (
        "\n".join(["| name | is |", "|---|---|", *(f"| `{name}` | {shown[name]} |" for name in sorted(shown))])
        if shown
        else ""
    )


def aliases_in(module: Any, words: set[str], seen: set[str]) -> dict[str, str]:
    """Aliases among *words* that *module* defines, or imports from a module of ours that does."""
    seen.add(module.__name__)
    given: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in words:
            value = ast.unparse(node.value)
            if not value.startswith("TypeVar") and value != "Any":
                given[node.targets[0].id] = f"`{cell(value)}`"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gantrymq"):
            wanted = {each.name for each in node.names} & words
            source = sys.modules.get(node.module or "") or import_module(node.module or "")
            if wanted and source.__name__ not in seen:
                given.update(aliases_in(source, wanted, {*seen}))
    return given


if __name__ == "__main__":
    main()
