"""Declarations of a section of the console: pages, and the actions that change something.

A page's function returns a `View`: a template, and data from which both the HTML and the JSON twin below ``/api/v1``
are made. An action is a POST; `gantrymq_console.web.actions` runs the steps that all actions share.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from gantrymq_admin.asking import Missing
from gantrymq_console.access.users import Role

if TYPE_CHECKING:
    from starlette.responses import Response

    from gantrymq_console.history.reading import Curve, Window
    from gantrymq_console.history.subject import SubjectHistory
    from gantrymq_console.web.context import RequestContext

_SHARED_S: Final = 5.0


class BadInput(Exception):
    """A form or a parameter has a value that cannot be used; the text names it and the expected values.

    Args:
        key: of the text.
        fields: of the text.
    """

    def __init__(self, key: str, /, **fields: Any) -> None:
        super().__init__(key, fields)
        self.key = key
        self.fields = fields


class NotFound(BadInput):
    """The address names something that the cluster does not have; the response has status 404."""


class Conflict(BadInput):
    """The request does not fit the present state; the response has status 409."""


class NotAccepted(BadInput):
    """Servers do not do this at the moment; the response has status 503.

    Args:
        key: of the text.
        links: segments of the pages with details; the second segment names the broker or topic.
        words: of the server, in English.
        cause: name of the cause, if a store refuses messages.
        values: of the cause.
        fields: of the text.
    """

    def __init__(
        self,
        key: str,
        links: tuple[tuple[str, ...], ...],
        /,
        *,
        words: str = "",
        cause: str = "",
        values: Mapping[str, str | int] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(key, **fields)
        self.links = links
        self.words = words
        self.cause = cause
        self.values = values or {}


class Forbidden(BadInput):
    """The user's role does not permit this; the response has status 403."""


class SeeOther(Exception):
    """Another page has the requested data.

    Args:
        segments: of its path, as for `RequestContext.link`.
        query: its parameters.
    """

    def __init__(self, *segments: str, **query: str) -> None:
        super().__init__(segments, query)
        self.segments = segments
        self.query = query


@attrs.frozen
class View:
    """The result of a page."""

    template: str  # a file of templates/
    data: Any  # an attrs object; the template gets it as ``data``, the JSON twin is made from it
    command: str = ""  # the gantrymq command that shows the same, without -n
    missing: Sequence[Missing] = ()  # requests that failed; shown above the page
    as_of_ms: int | None = None  # age of the oldest cached data; None for now
    title: str = ""  # replaces the page's title; data of the cluster, such as a topic's name
    status: int = 200
    problem: BadInput | None = None  # why the form of this page cannot be used; shown above it
    fixed: Mapping[str, Any] | None = None  # parameters that replace relative times by those of now; None: not needed
    history: SubjectHistory | None = None  # of the page's subject; None for refreshes, which keep the charts
    sparks: Mapping[str, Curve] = attrs.field(factory=dict)  # the last hour of rows of a list, by name
    sparks_window: Window | None = None


@attrs.frozen
class Page:
    """A page at one address, and its JSON twin at ``/api/v1`` and the same path."""

    path: str  # Starlette's pattern, such as /topics/{topic}
    name: str  # key of the title in the texts
    role: Role
    show: Callable[[RequestContext], Awaitable[View]]
    refresh_s: float | None = 5.0  # time between two refreshes by the browser; None: never
    nav: str = ""  # word of the entry of the navigation that is current

    @property
    def shared(self) -> bool:
        """Whether refreshes of several visitors share a view: it depends on the address, role and language only.

        Pages that follow a job refresh more often, and show it to the user who started it only.
        """
        return self.refresh_s is not None and self.refresh_s >= _SHARED_S


@attrs.frozen
class Download:
    """A file for the browser at one address: a streamed response without a JSON twin.

    If it contains bodies of messages, each request is in the audit log. A page that shows bodies calls
    `Console.record_read` itself, as it may leave them out.
    """

    path: str
    name: str
    role: Role
    make: Callable[[RequestContext], Awaitable[Response]]
    bodies: bool = False


class Confirm(enum.Enum):
    """The step that an action requires from the user before it runs."""

    NONE = "none"
    NUMBERS = "numbers"  # read a preview with numbers and press a button
    TYPE_NAME = "type_name"  # also type the name of the target


@attrs.frozen
class Preview:
    """The preview of an action, computed now. If it differs at the confirmation, the new preview is shown instead."""

    template: str
    data: Any
    command: str = ""
    target: str = ""  # the name to type with Confirm.TYPE_NAME, and in the audit log
    change: str = ""  # for the audit log, such as "24 -> 8 queues"
    steady: Any = None  # compared at the confirmation instead of *data* and *change*, if these have numbers that move
    form: Mapping[str, str] | None = None  # sent at the confirmation, if not what the form of the action had
    button: str = ""  # text of the button that confirms, if not the name of the action: of one that does several things
    button_fields: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Outcome:
    """The result of an action."""

    key: str  # of the text that reports it
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    to: str = ""  # decoded path of the page to show next; the text appears above it
    query: Mapping[str, Any] = attrs.field(factory=dict)  # its parameters
    view: View | None = None  # shown instead of a redirection, such as a result for each message
    failed: bool = False  # nothing, or only part, was done
    data: Any = None  # additional data for the JSON response


def outcome_of(key: str, kind: str, name: str, to: str, gone: Sequence[str] = ()) -> Outcome:
    """Return the result of a change of *name*, a *kind* of thing, that did not reach the brokers *gone*."""
    if gone:
        return Outcome("common.done_but", {"name": name, "brokers": ", ".join(gone)}, to)
    return Outcome(key, {kind: name}, to)


Form = Mapping[str, str]


@attrs.frozen
class Action:
    """A change: POST to one address, with a preview first unless *confirm* is NONE.

    In JSON: POST below ``/api/v1`` with an object of strings, whose names have to be in *fields*; ``"dry_run": "true"``
    returns the preview, or an error if there is none.
    """

    path: str
    name: str  # key of the title in the texts, and the word of the audit log
    role: Role
    run: Callable[[RequestContext, Form], Awaitable[Outcome]]
    preview: Callable[[RequestContext, Form], Awaitable[Preview]] | None = (
        None  # with Confirm.NONE for JSON only, or None
    )
    confirm: Confirm = Confirm.NUMBERS
    fields: Sequence[str] = ()  # names of the form; a final "*" matches any rest of a name
    most_bytes: int = 1024 * 1024  # limit of the form
    page: str = ""  # path of the page with the form, if it is not *path*; it has the same fields


@attrs.frozen
class Section:
    """The pages and actions of one section of the console."""

    pages: Sequence[Page] = ()
    actions: Sequence[Action] = ()
    downloads: Sequence[Download] = ()
