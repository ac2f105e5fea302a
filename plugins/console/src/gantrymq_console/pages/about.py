"""Versions of this console's parts, and the requests that each broker serves."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import Final, cast

import attrs

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.vendored import VendoredFile, vendored
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

PROBED_AGE_S: Final = 600.0
REQUESTS: Final = {
    "explain": 65021,
    "figures": 65022,
    "groups": 65023,
    "connections": 65024,
    "topics": 65025,
    "settings": 65026,
    "pending": 65001,
    "transactions": 65011,
}
"""Requests of GantryMQ's own that change nothing, by the word of their text."""
PACKAGES: Final = ("gantrymq", "gantrymq-console", "gantrymq-admin", "starlette", "uvicorn", "h11", "Jinja2")


@attrs.frozen
class AboutPage:
    """Versions, requests and licenses."""

    versions: Mapping[str, str]
    requests: Mapping[str, int]  # word to code
    served: Mapping[str, Mapping[str, bool]]  # by broker name, then word
    vendored: tuple[VendoredFile, ...]


async def about(visit: Visit) -> View:
    """Show the versions of the console's parts and the capabilities of brokers."""
    asking = Asking(visit.console.world.clock)
    masters = await asking.one("brokers", visit.cluster.masters()) or {}
    probes = {
        name: visit.cluster.shared(("served", at), PROBED_AGE_S, partial(_served, visit.cluster, at))
        for name, at in masters.items()
    }
    served = {name: each.value for name, each in (await asking.all(probes)).items()}
    versions = {"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return View("about.html", AboutPage(versions, REQUESTS, served, vendored()), "", asking.missing)


async def _served(cluster: Cluster, address: str) -> dict[str, bool]:
    """Return which requests a broker serves; a refusal for another reason than an unknown code counts as served."""
    found = {}
    for word, code in REQUESTS.items():
        try:
            await cluster.admin.request(address, cast("RequestCode", code))
            found[word] = True
        except RequestNotServed:
            found[word] = False
        except BrokerRefused:
            found[word] = True
    return found


PART = Part("about", pages=(Page("/about", "about.title", Role.VIEWER, about, None),))
