"""Pages of a console for a simulated cluster: the same bytes in every run, for pictures of them.

The broker, its clients and the console are in a simulated world, whose clock begins at the same moment. What such a
broker does not have, such as slaves and hundreds of queues, is put in the place of its answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import attrs
import httpx
from memory_history import MemoryHistory
from pictured_cluster import all_states

from gantrymq.client import Client
from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq_admin.elected import ElectedSet
from gantrymq_admin.explanations import GroupExplanation, QueueExplanation
from gantrymq_console.access.audit import MemoryAudit
from gantrymq_console.access.exposure import Exposure
from gantrymq_console.access.users import Everyone, Role, User
from gantrymq_console.data import group as group_data
from gantrymq_console.data.brokers import CopyRow, Overview
from gantrymq_console.data.cluster import Aged, Cluster
from gantrymq_console.history.reading import HOUR_MS, Mark
from gantrymq_console.pages import brokers as brokers_page
from gantrymq_console.running import SECTIONS
from gantrymq_console.web.app import App
from gantrymq_console.web.console import Console
from gantrymq_testing.simulation import simulate_cluster

BASE = "http://console.test"
LONG_ID = "10.20.30.40@" + "a-very-long-instance-name-" * 9 + "#1"
HOSTILE_ID = "<script>alert(1)</script> \u202egnp.exe שלום e\u0301\u0301\u0301 😀"
BODY = b'{"order": %d, "total": 9007199254740993, "note": "<b>4711</b>", "lines": [{"sku": "A-1", "count": 2}]}'


class FrozenConsole:
    """A console in the world of *cluster*."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.ids: list[str] = []

    async def __aenter__(self) -> FrozenConsole:
        self.client = Client(self.cluster.namesrv, world=self.world)
        await self.client.start()
        self.data = Cluster(self.client, self.world)
        user = Everyone(User("tester", Role.ADMIN))
        self.past = frozen_history(self.world.clock.now_ms())
        self.console = Console(
            self.data,
            self.world,
            user,
            MemoryAudit(),
            Exposure(frozenset({"console.test"})),
            SECTIONS,
            "ns-1:9876;ns-2:9876",
            past=self.past,
        )
        self.app = App(self.console)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.console.jobs.close()
        await self.data.close()
        await self.client.close()

    async def get(self, path: str, language: str = "en") -> httpx.Response:
        """Return the response to a request for *path*."""
        transport = httpx.ASGITransport(self.app)
        headers = {"accept-language": language}
        async with httpx.AsyncClient(transport=transport, base_url=BASE, follow_redirects=True) as browser:
            return await browser.get(path, headers=headers)

    async def join(self, group: str, client_id: str, topic: str) -> None:
        """Let the console's own connection say that it is a member of *group*."""
        wanted = [{"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}]
        said = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": wanted}
        body = dumps({"clientID": client_id, "consumerDataSet": [{"groupName": group, **said}]})
        await self.client.admin.request(self.cluster.broker_address, RequestCode.HEART_BEAT, body=body)

    async def commit(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        """Create a group with an offset for each of the first queues of a topic."""
        admin = self.client.admin
        if group not in await admin.groups(self.cluster.broker_address):
            await admin.create_group(self.cluster.broker_address, GroupConfig(group))
        for queue, offset in enumerate(offsets):
            await admin.commit_offset(group, MessageQueue(topic, "broker-a", queue), offset)

    async def fill(self) -> None:
        """Create topics, messages, groups and dead letters."""
        for name, queues in (
            ("Orders", 8),
            ("Payments", 4),
            ("a_topic_with_quite_a_long_name_of_the_billing_department" * 2, 1),
        ):
            await self.cluster.create_topic(name, queues)
        sent = []
        for number in range(60):
            await self.world.clock.sleep(0.5)
            sent.append(await self.cluster.send("Orders", BODY % number, keys=f"order-{number}", tags="Paid"))
        for number in range(7):
            await self.cluster.put("Orders", BODY % number, queue_id=0)
        await self.cluster.send("Payments", "wörter 数字 \u202e <script>".encode(), keys="<i>key</i>")
        self.ids = [each.message_id for each in sent]
        await self.commit("billing", "Orders", (9, 7, 7, 7, 0, 3, 5, 6))
        await self.commit("archive", "Orders", (1, 1, 1, 1, 1, 1, 1, 1))
        await self.commit("archive", "Payments", (0,))
        await self.commit("reports", "Payments", (0, 0, 0, 0))
        await self.join("shipping", "10.0.0.9@77", "Orders")
        for each in sent[:3]:
            back = ConsumerSendMsgBackRequest(
                offset=int(each.offset_id[16:], 16), group="shipping", delay_level=-1, origin_topic="Orders"
            )
            await self.client.admin.request(self.cluster.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
        await self.client.wait_ready("%DLQ%shipping")
        await self.world.clock.sleep(400)
        for client_id in ("10.0.0.7@2201", HOSTILE_ID, LONG_ID):
            await self.join("billing", client_id, "Orders")
        self.past.now_ms = self.world.clock.now_ms()


def explained_queue(queue: int, **more: Any) -> QueueExplanation:
    """A queue that is read without a problem, except for *more*."""
    given: dict[str, Any] = {
        "topic": "Orders",
        "queue": queue,
        "owner": "10.0.0.7@2201",
        "last_pull_ms_ago": 900,
        "last_pull_by": None,
        "next_pull": 900,
        "committed": 880,
        "min_offset": 0,
        "max_offset": 1000,
        "held": (),
        "hit_rate": None,
        "behind": 120,
        "lag_ms": 4000,
        "locked_by": None,
        "reset_to": None,
        "reason": "reading",
        "sentence": "",
        "values": {"count": 120},
    }
    return QueueExplanation(**{**given, **more})


def explained_queues() -> tuple[QueueExplanation, ...]:
    """Queues in all states, of four members."""
    done = {
        "behind": 0,
        "lag_ms": 0,
        "committed": 1000,
        "next_pull": 1000,
        "reason": "up-to-date",
        "values": {"end": 1000},
    }
    stuck = {
        "reason": "order-stuck",
        "values": {
            "client": LONG_ID,
            "offset": 300,
            "next": 301,
            "age_ms": 700_000,
            "count": 700,
            "group": "billing",
            "topic": "Orders",
            "queue": 4,
        },
        "owner": LONG_ID,
        "committed": 300,
        "next_pull": 340,
        "behind": 700,
        "lag_ms": 700_000,
        "moved_ms_ago": 700_000,
    }
    left = {"reason": "owner-left", "owner": None, "committed": 500, "next_pull": 560, "behind": 500, "lag_ms": 90_000}
    return (
        explained_queue(0),
        explained_queue(1, **done),
        explained_queue(2, owner=HOSTILE_ID, **done),
        explained_queue(3, owner=HOSTILE_ID),
        explained_queue(4, **stuck),
        explained_queue(5, owner="10.0.0.8@9", **done),
        explained_queue(6, values={"client": "10.0.0.3@4", "ago_ms": 90_000}, **left),
        explained_queue(7, values={"client": "10.0.0.3@4", "ago_ms": 93_000}, **left),
        *(explained_queue(number, topic="Payments", owner="10.0.0.8@9", **done) for number in range(12)),
    )


async def explained(real: Any, *given: Any) -> GroupExplanation:
    """The broker's explanation of a group; of billing with queues in all states."""
    found = await real(*given)
    return attrs.evolve(found, queues=explained_queues()) if found.group == "billing" else found


async def pictured(*_: Any) -> Aged[Overview]:
    """The brokers of `pictured_cluster`."""
    return Aged(Overview(tuple(all_states()[0])), 0)


@attrs.frozen
class FrozenPage:
    """One page, and the wall time at which it was made."""

    html: str
    headers: Mapping[str, str]
    now_ms: int


async def pages_of(cluster: Any, paths: Iterable[str], language: str) -> dict[str, FrozenPage]:
    """Return the pages at *paths*."""
    async with FrozenConsole(cluster) as console:
        await console.fill()
        _, copies, engines = all_states()

        async def copies_of(_cluster: Any, name: str, _silent: Any) -> tuple[CopyRow, ...]:
            return tuple(copies.get(name, ()))

        async def engines_of(*_: Any) -> dict[str, ElectedSet]:
            return engines

        real, found = group_data.explain_group, {}
        with ExitStack() as patches:
            of_brokers = partial(patch.object, brokers_page)
            patches.enter_context(patch.object(group_data, "explain_group", partial(explained, real)))
            patches.enter_context(of_brokers("copies_of_name", copies_of))
            patches.enter_context(of_brokers("engines_of", engines_of))
            for path in paths:
                with ExitStack() as of_page:
                    if path == "/brokers":
                        of_page.enter_context(of_brokers("overview", pictured))
                    got = await console.get(path.format(id=console.ids[-1]), language)
                found[path] = FrozenPage(masked(got.text), got.headers, console.world.clock.now_ms())
        return found


def masked(html: str) -> str:
    """Return a page without values that differ between runs: tokens of forms, and the version of the console."""
    html = re.sub(r'(name="(?:csrf|once)" value=")[^"]*', r"\g<1>0", html)
    return re.sub(r"GantryMQ console [0-9a-z.+]*[0-9a-z]", "GantryMQ console 1.2.3", html)


def frozen_history(now_ms: int) -> MemoryHistory:
    """Histories of the cluster, its topics and groups, with events."""
    found = MemoryHistory(now_ms)

    def wave(low: float, high: float, period_ms: int) -> Any:
        return lambda at_ms: low + (high - low) * abs(at_ms % period_ms - period_ms / 2) * 2 / period_ms

    for kind, name, word, values in (
        ("cluster", "", "in", wave(200, 900, HOUR_MS // 3)),
        ("cluster", "", "out", wave(300, 1400, HOUR_MS // 4)),
        ("topic", "Orders", "in", wave(20, 80, HOUR_MS // 5)),
        ("topic", "Orders", "out", wave(30, 140, HOUR_MS // 3)),
        ("group", "billing", "lag", wave(0, 1940, 2 * HOUR_MS)),
        ("group", "billing", "late_s", wave(0, 700, 2 * HOUR_MS)),
        ("group", "billing", "out", wave(10, 60, HOUR_MS // 6)),
        ("broker", "broker-a", "in", wave(20, 80, HOUR_MS // 5)),
        ("broker", "broker-a", "disk", wave(40, 44, HOUR_MS)),
    ):
        found.put(kind, name, word, values)
    found.events += [
        Mark(now_ms - 40 * 60_000, "elected", "broker", "elected", {"old": "1", "new": "2"}),
        Mark(now_ms - 15 * 60_000, "group_silent", "group", "archive"),
    ]
    return found


def frozen_pages(paths: Iterable[str], language: str = "en") -> dict[str, FrozenPage]:
    """Return pages by path; ``{id}`` in a path is a message's id."""
    return simulate_cluster(lambda cluster: pages_of(cluster, paths, language), seed=49)
