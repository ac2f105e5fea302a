"""HTML from templates, with filters for numbers, sizes and times, and static files.

Autoescaping is always on. Static files are read once; their addresses contain a digest, so browsers keep them.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import secrets
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version as version_of
from importlib.resources import files
from importlib.resources.abc import Traversable
from shlex import quote
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from gantrymq.plugin.model import Value
from gantrymq.plugin.names import is_system_topic
from gantrymq_console.access.users import Role
from gantrymq_console.data.body_forms import UNDECODED
from gantrymq_console.web import charts
from gantrymq_console.web.compiling import DirectCalls, escaped
from gantrymq_console.web.context import THEMES, RequestContext
from gantrymq_console.web.drawing import drawing_of
from gantrymq_console.web.texts import LANGUAGES

_NAVIGATION: Final = (
    "home",
    "topics",
    "groups",
    "clients",
    "delayed",
    "transactions",
    "brokers",
    "nameservers",
    "access",
    "audit",
)
_TIME_UNITS: Final = (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, 0))  # with their ends
DOCS_PAGE: Final = "operations/findings.html"  # of the site of the documentation
_VERSION: Final = version_of("gantrymq-console")
_LONG_ID: Final = 24  # characters; longer ids are cut in the middle
_ID_END: Final = 8  # characters behind the cut
_FIRST: Final = frozenset({"base.html", "bare.html", "_banners.html", "_command.html", "_parts.html", "home.html"})
_PROCESS: Final = secrets.token_hex(16)  # known to nobody, so that no text of a message is a place
_TOKEN_PLACE: Final = f"token-{_PROCESS}"
_ONCE_PLACE: Final = f"once-{_PROCESS}"
_SHORT_FROM: Final = 100_000  # larger numbers are shortened, with the whole number in the title


@cache
def static_files() -> dict[str, bytes]:
    """Return the files by their path below ``static/``."""
    found: dict[str, bytes] = {}

    def read(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                read(each, f"{prefix}{each.name}/")
            else:
                found[prefix + each.name] = each.read_bytes()

    read(files("gantrymq_console").joinpath("static"), "")
    return found


@cache
def static_version() -> str:
    """Return a digest of all files."""
    digest = hashlib.sha256()
    for path, data in sorted(static_files().items()):
        digest.update(path.encode() + b"\0" + data)
    return digest.hexdigest()[:12]


async def serve_static(request: Request) -> Response:
    """Return the file that the path names."""
    data = static_files().get(request.path_params["path"])
    if data is None:
        return Response("no such file", 404)
    kind = mimetypes.guess_type(request.path_params["path"])[0] or "text/plain"
    kept = request.path_params["version"] == static_version()
    caching = "public, max-age=31536000, immutable" if kept else "no-cache"
    return Response(data, media_type=kind, headers={"Cache-Control": caching})


_UNUSUAL: Final = re.compile(r"[^\x20-\x7e\n\t]+")  # characters that may need to be shown as signs
_COMMAND: Final = re.compile(
    r"\bgantrymq (?:broker config|broker write-perm|group dlq|group|topic|message|broker|cluster)"
    r" [a-z][a-z-]*(?![a-z-]| +-n\b)"
    r"|\bgantrymq status\b(?! +-n\b)"
)


class _Environment(jinja2.Environment):
    code_generator_class = DirectCalls
    escaped = staticmethod(escaped)


@cache
def environment() -> jinja2.Environment:
    """Return the environment of all templates."""
    made = _Environment(
        loader=jinja2.PackageLoader("gantrymq_console", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"visible": visible, "drawn": drawn, "number": number, "size": size}
    made.globals |= {"is_system_topic": is_system_topic, "drawing": drawing_of}
    return made


def templates() -> list[str]:
    """Return the names of all templates, those of the first page first."""
    names = environment().list_templates(["html"])
    return sorted(names, key=lambda name: (name not in _FIRST, name))


def compile_template(name: str) -> None:
    """Compile a template, which would take a step of up to 50 ms at its first use."""
    environment().get_template(name)


def render(template: str, context: RequestContext, *, shared: bool = False, **values: Any) -> str:
    """Return the HTML of *template*; it gets ``context``, ``t`` for texts, ``time``, ``link`` and *values*.

    Args:
        template: its name.
        context: of the visitor.
        shared: whether the HTML is for several visitors: its forms have places that `for_visitor` fills.
        **values: for the template.
    """
    return (
        environment()
        .get_template(template)
        .render(
            context=context,
            t=context.texts,
            link=context.link,
            static=lambda path: context.link("static", static_version(), *path.split("/")),
            token=lambda: _TOKEN_PLACE if shared else context.token,
            once=lambda: _ONCE_PLACE if shared else secrets.token_hex(8),
            languages=LANGUAGES,
            themes=THEMES,
            roles=Role,
            navigation=_NAVIGATION,
            version=_VERSION,
            log_out=context.console.identities.login_path() is not None,
            here=context.here,
            typed=context.typed,
            ticked=context.ticked,
            time=lambda ms, relative=True: time(context, ms, relative=relative),
            duration=lambda ms: duration(context, ms),
            id_end=id_end,
            charts=charts,
            event_fields=event_fields,
            figure_value=lambda word, value: figure_value(context, word, value),
            moment=moment,
            finding=lambda part, word: finding_link(context, part, word),
            translated=context.texts.translated,
            evidence=lambda found: context.texts(f"evidence.{found.word}", **shown_values(context, found.values)),
            reason=lambda word, each: reason(context, word, each),
            runnable=lambda sentence: runnable(sentence, context.console.name_servers),
            name_servers=quote(context.console.name_servers),
            layout="bare.html" if context.is_live else "base.html",
            **values,
        )
    )


def for_visitor(html: str, context: RequestContext) -> str:
    """Return shared HTML with the visitor's token and a new id in each form."""
    if _TOKEN_PLACE in html:
        html = html.replace(_TOKEN_PLACE, context.token)
    return re.sub(_ONCE_PLACE, lambda _: secrets.token_hex(8), html)


def finding_anchor(part: str, word: str) -> str:
    """Return the anchor of a finding on the page of findings, here and in the documentation."""
    return f"{part}-{word}".replace("_", "-")


def finding_link(context: RequestContext, part: str, word: str) -> str:
    """Return the address of the entry of a finding; empty if there is none, as for words of other versions."""
    if f"findings.{part}.{word}.what" not in context.texts.table:
        return ""
    docs = context.console.docs
    page = docs + DOCS_PAGE if docs else context.link("findings")
    return f"{page}#{finding_anchor(part, word)}"


def visible(value: Any) -> Markup:
    """Return text of a message or client with control and bidirectional characters shown as signs."""
    return Markup(_UNUSUAL.sub(_signs, escape(str(value))))


def drawn(value: str, most: int = 30) -> str:
    """Return text for an SVG, which has no room and no elements for signs: cut in the middle, signs as plain text."""
    plain = "".join(each if each.isprintable() else f"\u2039U+{ord(each):04X}\u203a" for each in value)
    return plain if len(plain) <= most else f"{plain[: most // 2]}\u2026{plain[-(most // 2 - 1) :]}"


def id_end(value: str) -> str:
    """Return the end of an id that is cut in the middle; empty for short ones, and those with unusual characters."""
    is_plain = len(value) > _LONG_ID and value.isascii() and value.isprintable()
    return value[-_ID_END:] if is_plain else ""


def runnable(sentence: str, name_servers: str) -> str:
    """Return a sentence of a server whose ``gantrymq`` commands have the name servers of this console."""
    return _COMMAND.sub(lambda found: f"{found[0]} -n {quote(name_servers)}", sentence)


def reason(context: RequestContext, word: str, each: Any) -> Markup:
    """Return the sentence of a reason in the reader's language; of an unknown one, the broker's own.

    Args:
        context: of the reader.
        word: the reason.
        each: has ``values``, ``variant``, and ``sentence``, which is in English; and ``brokers`` if it is of several.
    """
    key = f"reasons.{word}.{each.variant}" if each.variant else f"reasons.{word}"
    several = f"groups.several_{key.removeprefix('reasons.')}"
    if len(getattr(each, "brokers", ())) > 1 and several in context.texts.table:
        key = several
    values = shown_values(context, each.values)
    try:
        sentence = context.texts.plain(key, **values)
        if not any(sentence.startswith(given) for value in values.values() if (given := str(value))):  # such as an id
            sentence = sentence[:1].upper() + sentence[1:]
    except KeyError:  # of another version
        sentence, language = each.sentence, "en"
    else:
        language = context.texts.language
    return Markup('<span lang="{}">{}</span>').format(
        language, visible(runnable(sentence, context.console.name_servers))
    )


def shown_values(context: RequestContext, values: Mapping[str, Value]) -> dict[str, str | int]:
    """Return the values of a reason or of evidence for its text in the reader's language."""
    return {name: _shown(context, name, value) for name, value in values.items()}


def _shown(context: RequestContext, name: str, value: Value) -> str | int:
    """Return a value for a sentence; only counts have grouped digits, because commands contain other numbers."""
    if value is None:
        return context.texts("common.unknown_time" if name.endswith(("_ms", "_at")) else "common.unknown")
    if name == "facts":
        return ", ".join(context.texts.plain(f"facts.{word}") for word in str(value).split())
    if name.endswith("_at") and isinstance(value, int):
        return time(context, value, relative=False)
    if name.endswith("_ms") and isinstance(value, int):
        return duration(context, value)
    return value if name == "count" else str(value)


def _signs(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.isprintable() else "".join(map(_sign, text))


def _sign(letter: str) -> str:
    if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn"):
        return letter
    if UNDECODED <= ord(letter) <= UNDECODED + 0xFF:
        return f'<span class="sign">\\x{ord(letter) - UNDECODED:02x}</span>'
    return f'<span class="sign">U+{ord(letter):04X}</span>'


def number(value: int | None) -> Markup:
    """Return a whole number with grouped digits, shortened above 100,000."""
    if value is None:
        return Markup("")
    whole = f"{value:,}"
    if abs(value) < _SHORT_FROM:
        return Markup(whole)
    for unit, factor in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if abs(value) >= factor:
            return Markup('<data value="{}" title="{}">{:.4g}{}</data>').format(int(value), whole, value / factor, unit)
    return Markup(whole)


def size(value: int | None) -> str:
    """Return a number of bytes with a binary unit."""
    if value is None:
        return ""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def event_fields(event: Any) -> dict[str, Any]:
    """Return the fields of an event or change of a history for its text; numbers get grouped digits there."""
    return {name: each if isinstance(each, int) else visible(each) for name, each in event.fields.items()}


def figure_value(context: RequestContext, word: str, value: float) -> Markup:
    """Return a value of the series *word* of a history with its unit; static/charts.js does the same."""
    match charts.UNITS[word]:
        case "rate":
            return context.texts("common.per_s", count=_plain(value))
        case "percent":
            return context.texts("history.percent", value=_plain(value))
        case "time":
            unit, length = next(each for each in _TIME_UNITS if value < each[2] or not each[2])[:2]
            return context.texts(f"history.unit_{unit}", value=_plain(value / length))
        case "size":
            return Markup(size(round(value)))
    return Markup(_plain(value))


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def time(context: RequestContext, ms: int | None, *, relative: bool = True) -> Markup:
    """Return a time: UTC, which the script changes to the viewer's zone, and how long ago it was."""
    if ms is None or not 0 < ms < 253_402_300_800_000:
        return context.texts("common.unknown")
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    day, second = moment.isoformat(timespec="milliseconds")[:23].split("T")
    shown = f'<time datetime="{day}T{second}Z" title="{day} {second} UTC">{day} {second[:8]} UTC</time>'
    if not relative:
        return Markup(shown)
    ago = duration(context, abs(context.now_ms() - ms))
    beside = context.texts("common.in_time" if ms > context.now_ms() else "common.ago", time=ago)
    return Markup(f'{shown} <span class="ago">({beside})</span>')


def moment(ms: int | None) -> str:
    """Return a time for a field of a form, in UTC; the script changes it to the viewer's zone."""
    if ms is None or not 0 < ms < 253_402_300_800_000:
        return ""
    parts = "milliseconds" if ms % 1000 else "seconds"
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None).isoformat(timespec=parts)


def duration(context: RequestContext, ms: int) -> Markup:
    """Return a duration in its largest unit."""
    seconds = ms / 1000
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length or (unit == "minutes" and seconds >= 120):
            return context.texts(f"common.{unit}", count=int(seconds // length))
    if seconds >= 1:
        return context.texts("common.seconds", count=int(seconds))
    return context.texts("common.milliseconds", count=int(ms))
