"""What became of dead letters: whether each was sent again, when, by whom and to where, and the state of its copy.

The copy in the broker is the record of a send. Copies that were found are remembered, as they do not change; what
became of them is asked again until it is final.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Generic, Literal, TypeVar

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.plugin import names
from gantrymq_admin.asking import Asking
from gantrymq_admin.consumption import Certainty, Reason, consumers_of
from gantrymq_admin.dead_letters import RESENT_BY, RESENT_FROM, RESENT_GROUP
from gantrymq_admin.resent import Letter, Resent, SoughtLetter
from gantrymq_console.data import messages
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.resend_notes import ResendNotes

State = Literal["no", "yes", "unknown"]
Listed = TypeVar("Listed", bound=Letter)
_MOST_KNOWN: Final = 20_000  # letters whose copies are remembered
_CHUNK: Final = 50  # letters that are looked up at once
_MOST_FATES: Final = 20  # copies of a page whose fate is asked for
_AT_ONCE: Final = 4
_FATE_S: Final = 10.0  # after which it is asked again
_FINAL: Final = (Reason.CONSUMED.value, Reason.DEAD_LETTER.value)  # if they are certain
_LEFT_S: Final = 0.7  # of the time of a page, for what follows the search


@attrs.frozen
class Fate:
    """What became of a copy in its group, in the words of `gantrymq_admin.consumption`."""

    reason: str
    certainty: str
    copy: str = ""  # offset id of a later copy, such as the new dead letter


@attrs.frozen
class SentAgain:
    """Whether a letter was sent again."""

    state: State  # "unknown": a send was begun, and whether a copy was stored is not known
    time_ms: int | None = None  # of the copy, or of the send
    by: str = ""  # empty: not recorded
    topic: str = ""
    offset_id: str = ""  # of the copy
    copies: int = 0
    fate: Fate | None = None  # None: not asked


@attrs.frozen
class Picked(Generic[Listed]):
    """Letters of one page."""

    letters: Sequence[Listed]
    states: Mapping[str, SentAgain] | None  # by place; None: brokers cannot search, and all letters are listed
    more: bool  # whether there are more of them among those looked at
    looked_at: int  # letters, from the newest on


@attrs.frozen
class SourceLetter:
    """The dead letter that a message was sent again from."""

    place: str
    group: str  # empty if it is not recorded
    at: str  # ``broker:queue:offset``
    by: str

    @property
    def topic(self) -> str:
        """The topic of the dead letter."""
        return names.dead_letter_topic(self.group)


_Known = OrderedDict[tuple[str, str, str], SentAgain]  # by group, place and unique id


async def pick(
    cluster: Cluster,
    notes: ResendNotes,
    asking: Asking,
    group: str,
    letters: Sequence[Listed],
    wanted: str,
    start: int,
    count: int,
) -> Picked[Listed]:
    """Return the letters with the state *wanted*, or all, from number *start* on, and the fates of copies.

    Letters are looked up until the page is full, or its time is over. If the brokers cannot search, that is in
    `Asking.missing`.
    """
    await notes.load()
    found = list[Listed]()
    states = dict[str, SentAgain]()
    rest = list(letters[start : start + count] if wanted == "all" else letters)
    looked_at = 0
    while looked_at < len(rest) and (wanted == "all" or len(found) <= start + count) and asking.left_s > _LEFT_S:
        chunk = rest[looked_at : looked_at + _CHUNK]
        answer = await asking.one("sent again", states_of(cluster, notes, group, chunk))
        if answer is None:
            return Picked(letters[start : start + count], None, len(letters) > start + count, len(letters))
        states |= answer
        found += [each for each in chunk if wanted in ("all", answer[each.place].state)]
        looked_at += len(chunk)
    if wanted == "all":
        shown, more, looked_at = found, len(letters) > start + count, len(letters)
    else:
        shown, more = found[start : start + count], len(found) > start + count
    kept = {each.place: states[each.place] for each in shown}
    return Picked(shown, await _with_fates(cluster, asking, group, kept), more, looked_at)


async def states_of(
    cluster: Cluster, notes: ResendNotes, group: str, letters: Sequence[Letter]
) -> dict[str, SentAgain]:
    """Return the state of each letter by place, without fates. Raises ClientError: a broker does not search."""
    known: _Known = cluster.kept.setdefault("resends", OrderedDict())
    new = [each for each in letters if (group, each.place, each.id) not in known]
    if new:
        await check_searchable(cluster)
    copies = await Resent(cluster.admin, group).copies(new)
    unknown = notes.unknown(group)
    answered = [place for place in copies if place in unknown]
    if answered:
        await notes.end(group, answered)
    found = dict[str, SentAgain]()
    for each in letters:
        key = (group, each.place, each.id)
        if each.place in copies:
            known[key] = _sent(copies[each.place])
            if len(known) > _MOST_KNOWN:
                known.popitem(last=False)
        note = unknown.get(each.place)
        if key in known:
            found[each.place] = known[key]
        elif note is not None:
            found[each.place] = SentAgain("unknown", note.time_ms, note.by)
        else:
            found[each.place] = SentAgain("no")
    return found


async def check_searchable(cluster: Cluster) -> None:
    """Check that no broker is gone, which may have copies that nobody finds. Raises ClientError.

    A slave that is registered is searched instead of its master.
    """
    gone = (await cluster.gone()).keys() - (await cluster.slaves_asked()).keys()
    if gone:
        raise ClientError(
            f"{', '.join(sorted(gone))} is not registered at the name servers any more, and may have copies; if it is "
            "gone for good, stop missing it on its page"
        )


def forget(cluster: Cluster, group: str) -> None:
    """Drop what is remembered of a group, after a run: letters may have a further copy."""
    known: _Known = cluster.kept.get("resends", OrderedDict())
    for key in [each for each in known if each[0] == group]:
        del known[key]


async def of_letter(cluster: Cluster, notes: ResendNotes, asking: Asking, letter: ReceivedMessage) -> SentAgain | None:
    """Return the state and fate of one stored dead letter; None, with an entry in `Asking.missing`, if not known."""
    await notes.load()
    group = letter.topic.removeprefix(names.DLQ_PREFIX)
    sought = SoughtLetter.of(letter, group)
    states = await asking.one("sent again", states_of(cluster, notes, group, [sought]))
    return None if states is None else (await _with_fates(cluster, asking, group, states))[sought.place]


def source_of(message: ReceivedMessage) -> SourceLetter | None:
    """Return the dead letter that *message*, or the message that it is a retry of, was sent again from."""
    places = message.properties.get(RESENT_FROM, "").split()
    if not places:
        return None
    broker, _, offset = places[-1].rpartition(":")
    group = message.properties.get(RESENT_GROUP, "")
    return SourceLetter(places[-1], group, f"{broker}:0:{offset}", message.properties.get(RESENT_BY, ""))


async def _with_fates(
    cluster: Cluster, asking: Asking, group: str, states: Mapping[str, SentAgain]
) -> dict[str, SentAgain]:
    """Add the fates of the latest copies, at most `_MOST_FATES` of them."""
    sent = sorted(
        (item for item in states.items() if item[1].state == "yes"), key=lambda item: item[1].time_ms or 0, reverse=True
    )[:_MOST_FATES]
    free = asyncio.Semaphore(_AT_ONCE)

    async def asked(state: SentAgain) -> Fate | None:
        async with free:
            if asking.left_s < _LEFT_S / 2:
                return None
            return await _fate(cluster, asking, group, state)

    fates = await asyncio.gather(*(asked(state) for _, state in sent))
    found = {place: attrs.evolve(state, fate=fate) for (place, state), fate in zip(sent, fates, strict=True)}
    return {**states, **found}


async def _fate(cluster: Cluster, asking: Asking, group: str, state: SentAgain) -> Fate | None:
    ended: OrderedDict[tuple[str, str], Fate] = cluster.kept.setdefault("fates", OrderedDict())
    key = (group, state.offset_id)
    if key in ended:
        return ended[key]
    try:
        shared = await cluster.shared(("fate", *key), _FATE_S, lambda: _asked(cluster, asking.left_s, group, state))
    except ClientError:
        return None
    fate: Fate | None = shared.value
    if fate is not None and fate.certainty == Certainty.CERTAIN.value and fate.reason in _FINAL:
        ended[key] = fate
        if len(ended) > _MOST_KNOWN:
            ended.popitem(last=False)
    return fate


async def _asked(cluster: Cluster, left_s: float, group: str, state: SentAgain) -> Fate | None:
    copy = await messages.by_offset_id(cluster, state.offset_id)
    if copy is None:
        return None
    found = await consumers_of(
        cluster.admin,
        cluster.reader,
        copy,
        clock=cluster.world.clock,
        deadline_s=left_s,
        brokers=await cluster.addresses(),
        group=group,
    )
    for each in found.verdicts:
        return Fate(each.reason.value, each.certainty.value, each.copy.offset_id if each.copy is not None else "")
    return None


def _sent(copies: Sequence[ReceivedMessage]) -> SentAgain:
    last = copies[-1]
    by = last.properties.get(RESENT_BY, "")
    return SentAgain("yes", last.store_timestamp, by, last.topic, last.offset_id, len(copies))
