"""Definitions of a cluster: export as a file, and import after a preview of the differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from shlex import quote
from typing import Any, Final

import attrs
from starlette.responses import Response

from gantrymq.errors import GantryError
from gantrymq_admin.asking import Asking
from gantrymq_admin.definitions.cluster_tables import export_document, read_cluster
from gantrymq_admin.definitions.difference import Difference
from gantrymq_admin.definitions.document import Document, parse
from gantrymq_admin.definitions.fields import GROUP, TOPIC
from gantrymq_admin.definitions.importing import Plan, apply_plan, plan_import, report_of
from gantrymq_console.access.users import Role
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.values import Long, PlainJson
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.documents import MOST_BYTES
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Conflict,
    Download,
    Form,
    NotFound,
    Outcome,
    Page,
    Preview,
    Section,
    View,
)

_JOB: Final = "import"
_ACTION: Final = "definitions.import"
_AGE_S: Final = 30.0
_DEADLINE_S: Final = 8.0  # all topics and groups of all brokers are read
_SOURCE: Final = "the document"  # its name in errors
_SHOWN: Final = 200  # changes on a page; the JSON twin has all


@attrs.frozen
class DefinitionsPage:
    """The definitions that an export would have."""

    clusters: tuple[str, ...]
    cluster: str  # of this page; empty if it is not known
    system: bool  # RocketMQ's own topics and groups as well
    brokers: tuple[str, ...]
    topics: Long | None  # None: not known
    groups: Long | None
    order_configs: Long | None
    most_bytes: Long  # of a document to import


@attrs.frozen
class ImportPreview:
    """What an import would do."""

    report: Mapping[str, Any]  # as of ``gantrymq cluster import --output json``
    fewer_queues: bool
    shown: int = attrs.field(default=_SHOWN, metadata={"json": False})

    @property
    def adds(self) -> int:
        """Number of new definitions."""
        return sum(each["action"] == "add" for each in self.report["changes"])

    @property
    def hides(self) -> int:
        """Number of topics whose messages would be hidden."""
        return sum(any(at["hidden_messages"] is not None for at in each["at"]) for each in self.report["changes"])


@attrs.define
class Progress:
    """A running import."""

    cluster: str
    total: int
    ended: int = 0
    failed: int = 0
    left: int = 0
    report: Mapping[str, Any] | None = None  # with results; None before the end


@attrs.frozen
class ImportPage:
    """An import and its results."""

    id: str
    cluster: str
    running: bool
    total: int
    ended: int
    failed: int
    left: int  # changes that were not begun, because the import was stopped
    stopped: bool
    failure: str
    report: Mapping[str, Any] | None  # the page has the worst changes only
    shown: int = attrs.field(default=_SHOWN, metadata={"json": False})


async def show(context: RequestContext) -> View:
    """Show how many definitions the cluster has, with a link to download them and a form to import others."""
    asking = Asking(context.console.world.clock, _DEADLINE_S)
    clusters = await asking.needed(_clusters(context.cluster))
    cluster, system = _cluster(context, clusters), _system(context)
    found = None
    if cluster:
        found = await asking.one(cluster, _document(context, cluster, system))
    data = DefinitionsPage(
        clusters,
        cluster,
        system,
        found.brokers if found is not None else (),
        Long(found.count(TOPIC)) if found is not None else None,
        Long(found.count(GROUP)) if found is not None else None,
        Long(len(found.order_configs)) if found is not None else None,
        Long(MOST_BYTES),
    )
    options = (f" --cluster {quote(cluster)}" if len(clusters) > 1 else "") + (" --system" if system else "")
    return View("definitions.html", data, f"cluster export{options}", asking.missing)


async def export(context: RequestContext) -> Response:
    """Return the document as a file."""
    asking = Asking(context.console.world.clock, _DEADLINE_S)
    clusters = await asking.needed(_clusters(context.cluster))
    cluster = _cluster(context, clusters)
    if not cluster:
        raise BadInput("definitions.no_cluster", known=", ".join(clusters) or "-")
    document = await asking.needed(_document(context, cluster, _system(context)))
    text = await context.console.world.workers.run(document.to_text)
    name = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in cluster)
    headers = {"Content-Disposition": f'attachment; filename="{name}-definitions.json"', "Cache-Control": "no-store"}
    return Response(text, media_type="application/json", headers=headers)


def _system(context: RequestContext) -> bool:
    return context.choice("system", ("no", "yes")) == "yes"


async def _clusters(cluster: Cluster) -> tuple[str, ...]:
    return tuple(sorted({each.cluster for each in await cluster.brokers()}))


def _cluster(context: RequestContext, clusters: tuple[str, ...]) -> str:
    """Return the cluster that the address names, or the only one. Raises NotFound: there is none of that name."""
    wanted = context.text("cluster")
    if wanted and wanted not in clusters:
        raise NotFound("definitions.no_cluster", known=", ".join(clusters) or "-")
    return wanted or (clusters[0] if len(clusters) == 1 else "")


async def _document(context: RequestContext, cluster: str, system: bool) -> Document:
    """Return the definitions of a cluster, at most `_AGE_S` old."""

    async def read() -> Document:
        tables = await read_cluster(context.cluster.admin, cluster)
        return await context.console.world.workers.run(partial(export_document, tables, system=system))

    return (await context.cluster.shared(("definitions", cluster, system), _AGE_S, read)).value


# --- import ---


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return what the document would change. The form of the confirmation has the key of the kept document only."""
    key, document = _kept(context, form)
    plan = context.prepared = await _plan(context, form, document)
    report, seen = await context.console.world.workers.run(_report, plan.difference)
    if not report["changes"] and not context.is_api:
        context.console.documents.drop(context.user.name, key)
        raise BadInput("definitions.nothing", cluster=plan.difference.cluster, count=report["unchanged"])
    data = ImportPreview(PlainJson(report), "fewer_queues" in form)
    sent = {name: form[name] for name in ("cluster", "map", "fewer_queues") if form.get(name)} | {"kept": key}
    options = "".join(f" --map {quote(f'{old}={new}')}" for old, new in _moves(form))
    options += f" --cluster {quote(form['cluster'])}" if form.get("cluster") else ""
    options += " --fewer-queues" if data.fewer_queues else ""
    command = f"cluster import definitions.json{options}"
    change = f"{data.adds} to add, {len(report['changes']) - data.adds} to change"
    steady = [seen, data.fewer_queues]
    return Preview("definitions_preview.html", data, command, plan.difference.cluster, change, steady, form=sent)


def _report(difference: Difference) -> tuple[dict[str, Any], str]:
    """Return the report of a difference, and a digest of it; for a thread, as both take long."""
    report = report_of(difference, True, None)
    digest = hashlib.sha256()
    for part in report.values():
        for each in part if isinstance(part, list) else [part]:  # the encoder lets no other thread go on meanwhile
            digest.update(json.dumps(each, sort_keys=True).encode())
    return report, digest.hexdigest()


async def start(context: RequestContext, form: Form) -> Outcome:
    """Start the import, and show its progress. It makes the changes of the preview that was confirmed."""
    key, document = _kept(context, form)
    plan: Plan = context.prepared or await _plan(context, form, document)
    context.console.documents.drop(context.user.name, key)
    difference, total = plan.difference, len(plan.difference.changes)
    if context.is_api and not total:
        return Outcome("definitions.nothing", {"cluster": difference.cluster, "count": difference.unchanged}, data={})
    progress, fewer_queues = Progress(difference.cluster, total), "fewer_queues" in form

    async def work(job: Job[Progress]) -> None:
        def tell(ended: int) -> None:
            progress.ended = ended

        result = "failed: cancelled"
        try:
            results = await apply_plan(
                context.cluster.admin,
                plan,
                fewer_queues=fewer_queues,
                progress=tell,
                stop_asked=lambda: job.stop_asked,
            )
            report = await context.console.world.workers.run(report_of, difference, False, results)
            progress.failed = failed = sum(bool(each.problems) for each in results)
            progress.left = left = sum(not each.begun for each in results)
            progress.report = PlainJson(report)
            result = f"failed: {failed} of {total} changes" if failed else f"done: {total - left} changes"
            result += f", stopped before {left}" if left else ""
        except GantryError as problem:
            result = f"failed: {problem}"
            raise
        finally:
            context.cluster.forget()
            await context.console.record_end(context, _ACTION, difference.cluster, f"{total} changes", result)

    job = context.console.jobs.start(_JOB, context.user.name, progress, work, most=1)
    return Outcome("definitions.started", {"count": total}, f"definitions/import/{job.id}", data={"job": job.id})


def _kept(context: RequestContext, form: Form) -> tuple[str, bytes]:
    """Return the document of the form, or the one that its preview has kept, with its key.

    Raises:
        BadInput: there is none, or it is too large.
        Conflict: it is not kept any more.
    """
    documents, user = context.console.documents, context.user.name
    if key := form.get("kept", ""):
        document = documents.find(user, key)
        if document is None:
            raise Conflict("definitions.upload_again")
        return key, document
    document = (form.get("document", "").strip() or form.get("text", "").strip()).encode()
    if not document:
        raise BadInput("definitions.no_document")
    if len(document) > MOST_BYTES:
        raise BadInput("definitions.too_large", most=MOST_BYTES // 1024)
    return documents.keep(user, document), document


async def _plan(context: RequestContext, form: Form, document: bytes) -> Plan:
    """Compare a document with the cluster as it is now. Raises DefinitionsInvalid, BadInput or ClientError."""
    run = context.console.world.workers.run  # with thousands of topics each step takes some 100 ms
    parsed = await run(parse, document, _SOURCE)
    cluster = form.get("cluster", "").strip() or None
    asked = plan_import(context.cluster.admin, parsed, cluster, _moves(form), run)
    return await Asking(context.console.world.clock, _DEADLINE_S * 2).needed(asked)


def _moves(form: Form) -> list[tuple[str, str]]:
    """Return the pairs of brokers, one OLD=NEW in each word of the field."""
    found = []
    for word in form.get("map", "").split():
        old, mark, new = word.partition("=")
        if not mark or not old:
            raise BadInput("definitions.bad_map", value=word[:80])
        found.append((old, new))
    return found


async def show_import(context: RequestContext) -> View:
    """Show the progress of an import, then the result of each change."""
    job: Job[Progress] = context.job(_JOB, "definitions.no_job")
    progress, report = job.progress, job.progress.report
    if report is not None and not context.is_api:  # what is shown, as every refresh looks at all of it
        report = {"changes": sorted(report["changes"], key=_worst_first)[:_SHOWN]}
    data = ImportPage(
        job.id,
        progress.cluster,
        job.is_running,
        progress.total,
        progress.ended,
        progress.failed,
        progress.left,
        job.stop_asked,
        job.failure,
        None if report is None else PlainJson(report),
    )
    return View("definitions_import.html", data, title=progress.cluster)


def _worst_first(change: Mapping[str, Any]) -> int:
    return ("failed", "stopped", "done").index(change["result"])


async def stop(context: RequestContext, form: Form) -> Outcome:
    """Let a running import begin no further change."""
    job = context.job(_JOB, "definitions.no_job")
    job.stop_asked = True
    return Outcome("definitions.stopping", {}, f"definitions/import/{job.id}")


SECTION = Section(
    pages=(
        Page("/definitions", "definitions.title", Role.VIEWER, show, None, nav="brokers"),
        Page("/definitions/import/{job}", "definitions.import", Role.ADMIN, show_import, 1.0, nav="brokers"),
    ),
    actions=(
        Action(
            "/definitions/import",
            _ACTION,
            Role.ADMIN,
            start,
            preview,
            Confirm.NUMBERS,
            ("document", "cluster", "map", "fewer_queues"),
            most_bytes=3 * MOST_BYTES,  # percent-encoded or escaped
            page="/definitions",
        ),
        Action("/definitions/import/{job}/stop", "definitions.stop", Role.ADMIN, stop, confirm=Confirm.NONE),
    ),
    downloads=(Download("/definitions/export", "definitions.export", Role.VIEWER, export),),
)
