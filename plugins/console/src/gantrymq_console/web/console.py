"""The objects of a running console that requests use: the topics of each user, refreshes that pages share, jobs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from gantrymq.plugin.world import World
from gantrymq_console.access.audit import Audit, AuditUnwritable, Entry
from gantrymq_console.access.exposure import Exposure
from gantrymq_console.access.users import Identities
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.resend_notes import ResendNotes
from gantrymq_console.data.saved import SavedSearches
from gantrymq_console.decoders.registry import Decoders
from gantrymq_console.history.reading import HistorySource, NoHistory
from gantrymq_console.values import to_json
from gantrymq_console.web.context import RequestContext, page_of
from gantrymq_console.web.documents import Documents
from gantrymq_console.web.jobs import Jobs
from gantrymq_console.web.pace import LEAST_S, Pace
from gantrymq_console.web.pages import Page, View
from gantrymq_console.web.render import for_visitor

if TYPE_CHECKING:
    from gantrymq_console.web.pages import Section

log = logging.getLogger(__name__)

_MOST_USERS: Final = 1000
_MOST_TOPICS: Final = 8
AGE_S: Final = 4.0  # age of a view, if a page is refreshed every `LEAST_S`
LATE_S: Final = 6.0  # additional age while a new view is made
MOST_KEPT: Final = 32  # views, tags and texts
MINUTE_MS: Final = 60_000


class RecentTopics:
    """Up to eight topics for each of the last thousand users, in memory."""

    def __init__(self) -> None:
        self._topics: OrderedDict[str, list[str]] = OrderedDict()

    def add(self, user: str, topic: str) -> None:
        """Put *topic* first."""
        others = [each for each in self._topics.pop(user, []) if each != topic]
        self._topics[user] = [topic, *others[: _MOST_TOPICS - 1]]
        if len(self._topics) > _MOST_USERS:
            self._topics.popitem(last=False)

    def of(self, user: str) -> tuple[str, ...]:
        """Return the topics of *user*, the last one first."""
        return tuple(self._topics.get(user, ()))


class Refreshes:
    """Views that refreshes share. All tables are bounded."""

    def __init__(self, pace: Pace | None = None) -> None:
        """Create it; *pace* of all refreshes of the console."""
        self.pace = pace or Pace()
        self._views: OrderedDict[Hashable, None] = OrderedDict()  # keys of answers that the cluster shares
        self._tags: OrderedDict[int, tuple[View, int, str]] = OrderedDict()  # by the id of a view, with the minute
        self._texts: OrderedDict[Hashable, str] = OrderedDict()

    async def view(self, context: RequestContext, page: Page) -> View:
        """Return the view of *page* for a visitor. Raises as its function does.

        A refresh may get the view of another visitor; a visitor who opens or reloads a page gets a new one. A view with
        values that its visitor typed is nobody else's.
        """
        if not page.shared or context.is_api or context.form is not None:
            return await page.show(context)
        key = ("view", page_of(context.request), context.user.role, context.texts.language)
        if not context.is_live:
            context.cluster.forget(key)
        dropped = _keep(self._views, key, None)
        if dropped is not None:
            context.cluster.forget(dropped)
        monotonic = context.console.world.clock.monotonic

        async def made() -> tuple[View, float]:
            return await page.show(context), monotonic()

        context.due_s = period_s = self.pace.at(monotonic())  # also of a page that fails
        age_s = AGE_S + period_s - LEAST_S  # so that each refresh has new data
        view, made_s = (await context.cluster.shared(key, age_s, made, LATE_S)).value
        age = monotonic() - made_s
        context.age_s = int(age)
        context.due_s = max(1.0, period_s - age)
        return view

    def forget(self, context: RequestContext) -> None:
        """Drop all views after a change."""
        if self._views:
            context.cluster.forget(*self._views)
            self._views.clear()

    def tag(self, context: RequestContext, view: View) -> str:
        """Return a tag that changes with the view, and once a minute for the ages that the page shows."""
        minute = context.now_ms() // MINUTE_MS
        known = self._tags.get(id(view))
        if known is not None and known[0] is view and known[1] == minute:
            return known[2]
        shown = [view.template, view.title, view.command, context.texts.language, minute]
        facts = [to_json(view.data), to_json(view.missing), *shown]
        tag = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
        _keep(self._tags, id(view), (view, minute, tag))
        return tag

    def etag(self, context: RequestContext, tag: str) -> str:
        """Return the ETag of the view with *tag* for this visitor.

        A page may have the token of this browser's forms, buttons of the role and times of the zone, and the browser
        keeps it while the tag is the same: after another log-in, or a restart of the console, it is another.
        """
        who = [context.known_token, context.user.name, context.user.role.word, context.zone]
        return f'"{tag}-{hashlib.sha256(json.dumps(who).encode()).hexdigest()[:20]}"'

    def text(self, context: RequestContext, tag: str, render: Callable[[], str]) -> str:
        """Return the main part of a page, made by *render* unless another visitor's is the same.

        The HTML that *render* returns is for all visitors, see `gantrymq_console.web.render.for_visitor`.
        """
        key = (tag, page_of(context.request), context.user.role, context.zone)
        found = self._texts.get(key)
        if found is None:
            found = render()
            _keep(self._texts, key, found)
        return for_visitor(found, context)


def _keep(table: OrderedDict[Any, Any], key: Hashable, value: Any) -> Hashable | None:
    """Add an entry; return the key of the one that was dropped for it, if any."""
    table[key] = value
    table.move_to_end(key)
    return table.popitem(last=False)[0] if len(table) > MOST_KEPT else None


@attrs.frozen
class Console:
    """A running console."""

    cluster: Cluster
    world: World
    identities: Identities
    audit: Audit
    exposure: Exposure
    sections: Sequence[Section]
    name_servers: str  # as given, for the commands that pages show
    in_broker: bool = False  # whether it shares the process of a broker
    state: Path | None = None  # folder of its files; None: nothing is kept
    docs: str = ""  # address of the documentation, with a slash at the end; empty: the console's own page of findings
    decoders: Decoders = attrs.field(factory=Decoders)
    recent: RecentTopics = attrs.field(factory=RecentTopics)
    refreshes: Refreshes = attrs.field(factory=Refreshes)
    past: HistorySource = attrs.field(factory=NoHistory)  # what pages show of the time before
    documents: Documents = attrs.field(default=attrs.Factory(lambda self: Documents(self.world.clock), takes_self=True))
    jobs: Jobs = attrs.field(default=attrs.Factory(lambda self: Jobs(self.world.clock), takes_self=True))
    resend_notes: ResendNotes = attrs.field(
        default=attrs.Factory(lambda self: ResendNotes(self.world, self.state), takes_self=True)
    )
    saved: SavedSearches = attrs.field(
        default=attrs.Factory(lambda self: SavedSearches(self.world, self.state), takes_self=True)
    )

    async def record_end(self, context: RequestContext, name: str, target: str, change: str, result: str) -> None:
        """Write the result of an action that went on after its response to the audit log, or to the log."""
        address = str(context.request.scope.get("gantrymq.address", ""))
        try:
            await self.audit.write(
                Entry(context.now_ms(), "", context.user.name, address, name, target, change, result)
            )
        except AuditUnwritable as problem:
            log.error("the result %r of %s %s is not in the audit log: %s", result, name, target, problem)

    async def record_read(self, context: RequestContext, name: str, target: str) -> None:
        """Write to the audit log that a page showed bodies. Raises AuditUnwritable: the bodies must not be shown."""
        address = str(context.request.scope.get("gantrymq.address", ""))
        await self.audit.write(Entry(context.now_ms(), "", context.user.name, address, name, target, result="read"))
