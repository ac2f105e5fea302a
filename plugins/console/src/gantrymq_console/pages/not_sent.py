"""Why a message was not sent, for the pages of its topic and brokers."""

from __future__ import annotations

from gantrymq.client.sending.results import SendFailed
from gantrymq.errors import BrokerRefused, ClientError, GantryError, NoRoute
from gantrymq.plugin.model import PERM_WRITE
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking
from gantrymq_console.data.brokers import accepts_sends, state_of
from gantrymq_console.data.cluster import BrokerAddress
from gantrymq_console.web.pages import NotAccepted
from gantrymq_console.web.visit import Visit

__all__ = ["cause_of"]


async def cause_of(visit: Visit, topic: str, problem: GantryError) -> Exception:
    """Return the cause of a failed send with links to where it is removed, or *problem* if none is found."""
    code = getattr(problem, "response_code", None)
    try:
        found = None
        if isinstance(problem, NoRoute) or code == ResponseCode.NO_PERMISSION:
            found = await Asking(visit.console.world.clock).needed(_closed(visit, topic))
        elif code == ResponseCode.SERVICE_NOT_AVAILABLE and isinstance(problem, SendFailed | BrokerRefused):
            found = await Asking(visit.console.world.clock).needed(_refusing(visit, problem))
    except ClientError:
        return problem
    return found or problem


async def _closed(visit: Visit, topic: str) -> NotAccepted | None:
    """Return which brokers of the topic take no messages."""
    route = await visit.cluster.admin.route(topic)
    unwritable = sorted({each.broker_name for each in route.queues if not each.perm & PERM_WRITE})
    if not unwritable:
        return None
    visit.cluster.forget(*(("writable", name) for name in unwritable))
    closed = [name for name in unwritable if await accepts_sends(visit.cluster, name) is False]
    if closed:
        links = tuple(("brokers", name) for name in closed)
        return NotAccepted("sending.closed", links, topic=topic, brokers=", ".join(closed))
    return NotAccepted("sending.read_only", (("topics", topic, "settings"),), topic=topic)


async def _refusing(visit: Visit, problem: SendFailed | BrokerRefused) -> NotAccepted | None:
    """Return why a broker that was tried refuses messages."""
    tried = problem.brokers if isinstance(problem, SendFailed) else (problem.address,)
    for name, address in (await visit.cluster.masters()).items():
        if name in tried or address in tried:
            state = state_of(BrokerAddress("", name, 0, address), await visit.cluster.admin.runtime_info(address))
            if state.refusal:
                return NotAccepted(
                    "brokers.refuses_why",
                    (("brokers", name),),
                    words=state.refusal,
                    cause=state.refusal_cause,
                    values=state.refusal_values,
                    name=name,
                )
    return None
