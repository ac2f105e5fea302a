"""Sentences about a set with an elected master: master, in-sync set, confirmed offset, effect of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from gantrymq.client.admin import ConnectedSlave
from gantrymq.plugin.commands import local_time
from gantrymq_admin.elected import ElectedBroker, ElectedSet

_TOO_FEW = "in-sync replicas not enough"  # part of the texts of masters of GantryMQ and of RocketMQ
_STILL_CONNECTED = "does not answer, and the master still has a connection of it"
_SILENT_S = 20  # after which a master closes a connection without reports


def explained(found: ElectedSet) -> list[str]:
    """Return the sentences."""
    known = [*_master(found), *_members(found), *_confirmed(found)]
    return known + ([*_without_data(found)] if found.data_lost else [*_failures(found), *_refusals(found)])


def accepting(found: ElectedSet) -> bool | None:
    """Return whether the master accepts messages; None if it does not say."""
    master = found.master
    if master is None:
        return False
    return None if master.election is None else not master.election.problem


def lacks_copies(master: ElectedBroker | None) -> bool:
    """Return whether the master refuses messages because too few members of its set are in sync."""
    return master is not None and master.election is not None and _TOO_FEW in master.election.problem


def _master(found: ElectedSet) -> Iterator[str]:
    told = found.told
    by = "RocketMQ's controller" if found.controllers else "etcd"
    how = f", with fencing={told.fencing} and minInSyncReplicas={told.least_copies}" if told else ""
    yield f"The master of {found.broker} is elected by {by}{f' at {found.leader}' if found.leader else ''}{how}."
    if found.engine_problem:
        yield f"The controllers do not help: {found.engine_problem}."
    master = found.master
    if master is None:
        yield (
            f"There is no master now; the last epoch was {found.epoch}." if found.epoch else "There was no master yet."
        )
    else:
        since = _since(found)
        when = f", at least since {local_time(since)}" if since else ""
        yield f"{_name(master)} is the master of epoch {found.epoch}{when}."
        if master.silent:
            yield f"It does not answer here: {master.silent}."
    for each in found.brokers:
        state = each.election
        if state is not None and state.own_id and (state.epoch, state.master) != (found.epoch, found.master_id):
            knows = "no master" if state.master is None else f"broker id {state.master} as the master"
            yield f"{_name(each)} still knows {knows} of epoch {state.epoch}."


def _since(found: ElectedSet) -> int:
    """Return the earliest time at which a broker learned the present master, in ms; 0 if none says."""
    states = (each.election for each in found.brokers if each.election is not None)
    known = [each.known_since_ms for each in states if (each.epoch, each.master) == (found.epoch, found.master_id)]
    return min(filter(None, known), default=0)


def _members(found: ElectedSet) -> Iterator[str]:
    told, connected = found.told, _connected(found)
    number = told.in_sync_epoch if told and told.epoch == found.epoch else 0
    if found.known is not None and found.known.epoch == found.epoch:
        number = max(number, found.known.in_sync_epoch)
    ids = listed(found.in_sync)
    yield f"The in-sync set{f' (number {number})' if number else ''} is {ids or 'empty'}."
    for broker_id in found.in_sync:
        if broker_id == found.master_id:
            continue
        slave, broker = connected.get(broker_id), found.by_id(broker_id)
        name = _name(broker) if broker is not None else f"Broker id {broker_id}"
        if slave is not None and broker is not None and broker.silent:
            yield f"{name} is in the set, but {_STILL_CONNECTED}: {broker.silent}."
        elif slave is not None:
            yield f"{name} is in the set, and {_lag(slave)}."
        elif broker is None or broker.silent or broker.alive is False:
            why = "is not registered with the name servers"
            if broker is not None:
                why = f"does not answer: {broker.silent}" if broker.silent else "is not alive for the controller"
            yield f"{name} is in the set, but {why}."
        elif found.master is not None and found.master.election is not None:
            problem = _follow_problem(broker)
            yield f"{name} is in the set, but the master has no connection of it{f': {problem}' if problem else ''}."
    for each in found.brokers:
        if each.id not in found.in_sync:
            yield f"{_name(each)} is not in the set: {why_out(found, each)}."
    away = found.master.election.away_since_ms if found.master is not None and found.master.election is not None else {}
    for broker_id, at_ms in away.items():
        if found.by_id(broker_id) is None and broker_id not in found.in_sync:
            yield (
                f"Broker id {broker_id} is away: the master has had no connection of it since {local_time(at_ms)}. "
                f"'gantrymq cluster forget {quote(found.broker)} {broker_id}' removes it if it is gone for good."
            )


def why_out(found: ElectedSet, broker: ElectedBroker) -> str:
    """Return why a broker is not in the in-sync set."""
    if broker.silent:
        return f"it does not answer: {broker.silent}"
    if not broker.registered:
        if broker.alive:
            return "the controller hears of it, but it is not registered with the name servers yet"
        return "it is known to the controller only; 'gantrymq cluster forget' removes one that is gone for good"
    state = broker.election
    if state is not None:
        if state.apart:
            return f"it takes no part in the election: {state.apart}"
        if state.learner:
            return "it is a learner (asyncLearner=true), and never will be"
    slave = _connected(found).get(broker.id or 0)
    if slave is not None and slave.learner:
        client = broker.ha.connection if broker.ha is not None else None
        tables = client.tables_problem if client is not None else None
        return f"it has not copied topics, groups and offsets yet{f': {tables}' if tables else ''}"
    if slave is not None:
        return f"{_lag(slave)}, and enters as soon as it has everything"
    if found.master is None:
        return "there is no master that could take it in"
    if problem := _follow_problem(broker):
        return f"it does not follow: {problem}"
    if state is not None and state.unelectable:
        return state.unelectable
    if found.master.silent:
        return "the master, which does not answer here, would know"
    if found.master.election is None:
        return "the master, a broker of RocketMQ, does not say why; mqadmin haStatus shows how far its slaves are"
    return "the master has no connection of it yet"


def _follow_problem(broker: ElectedBroker) -> str:
    client = broker.ha.connection if broker.ha is not None else None
    return (client.problem or "") if client is not None else ""


def _connected(found: ElectedSet) -> dict[int, ConnectedSlave]:
    """Return the slaves that the master reports, by id."""
    master = found.master
    slaves = master.ha.slaves if master is not None and master.ha is not None else ()
    return {each.broker_id: each for each in slaves if each.broker_id is not None}


def _lag(slave: ConnectedSlave) -> str:
    if slave.lag_bytes <= 0:
        return "it has everything"
    late = f", and did not have everything for {slave.late_ms / 1000:.1f} s" if slave.late_ms else ""
    return f"it is {slave.lag_bytes} bytes behind{late}"


def _confirmed(found: ElectedSet) -> Iterator[str]:
    master = found.master
    if master is None or master.election is None:
        return
    end = master.ha.max_offset if master.ha is not None else 0
    confirmed, waits = master.election.confirmed, master.election.fencing != "rocketmq"
    rest = end - confirmed
    connected = _connected(found)
    missing = [each for each in found.in_sync if each != master.id and each not in connected]
    if missing and waits:
        unseen = f"; the {rest} bytes after that are not shown to consumers" if rest > 0 else ""
        yield (
            f"As far as the master knows, the set has confirmed the log up to offset {confirmed}{unseen}. "
            f"How much broker id {_all(missing)} has is not known without a connection."
        )
    elif rest > 0:
        seen = " Consumers do not see them, and this master has acknowledged none of them." if waits else ""
        yield f"Every member has the log up to offset {confirmed}; {rest} bytes more are not confirmed.{seen}"
    else:
        yield f"Every member of the set has the whole log, up to offset {end}."


# --- effects of failures ----------------------------------------------------------------------------------------------


def _failures(found: ElectedSet) -> Iterator[str]:
    state, master = found.told, found.master
    if state is None or master is None or _fenced(master):  # _refusals describes a fenced one
        return
    if found.controllers and not found.leader:
        yield (
            f"If broker id {master.id} failed, no other broker would take over before a controller leads; until then "
            "the controllers change no in-sync set, either."
        )
        return
    lease, least = f"{state.lease_ms / 1000:g} s", state.least_copies
    others = [each for each in found.in_sync if each != found.master_id and is_ready(found, each)]
    late = f"within {lease}"
    if found.controllers:
        late = f"at once if its connection to the controller breaks, and within {lease} and 5 s otherwise"
    if others:
        kept = state.fencing != "rocketmq" and (master.election is not None or master.silent)
        lost = "" if kept else ", which may lack what only the master has"
        few = ", but messages are refused until another one is in sync" if len(found.in_sync) - 1 < least else ""
        either = " or ".join(map(str, others))
        yield f"If broker id {master.id} failed, broker id {either} would take over {late}{lost}{few}."
    else:
        yield (
            f"If broker id {master.id} failed, no other broker could take over: messages would be refused until it "
            "is back, or until 'gantrymq cluster promote --unclean' elects another broker, and what that one "
            "lacks is lost."
        )
    if master.silent:
        return
    if master.election is None:
        yield (
            "The master, a broker of RocketMQ, goes on if the controllers fail, and then may acknowledge what is lost. "
            "Its own settings say whether it waits for the set (allAckInSyncStateSet)."
        )
        return
    for each in (each for each in others if each in _connected(found)):
        then = (
            f"refused, because minInSyncReplicas={least} asks for more copies"
            if len(found.in_sync) - 1 < least
            else f"acknowledged with {len(found.in_sync) - 1} of {len(found.in_sync)} copies"
        )
        yield (
            f"If broker id {each} failed, messages would wait until it has left the set, at once if its connection "
            f"breaks and {_SILENT_S} s at most otherwise, and then be {then}."
        )
    engine = "the controllers" if found.controllers else "etcd"
    if state.fencing == "rocketmq":
        yield f"If {engine} failed, the master would go on, and its own failure would not be noticed."
    else:
        then = "at once" if found.controllers else f"after {lease} at most"
        but = ", unless every member of the set follows it" if state.fencing == "failsafe" else ""
        again = f"until {'they answer' if found.controllers else 'it answers'} again"
        yield f"If {engine} failed, the master would refuse messages {then}{but}, {again}."


def _without_data(found: ElectedSet) -> Iterator[str]:
    """Yield the state and the remedies after the engine has lost its data."""
    yield f"No broker of {found.broker} can be elected now: {found.data_lost}."
    if accepting(found):
        yield "Messages are accepted, because the fencing of the master allows it, but no other broker can take over."
    elif found.master is None or found.master.election is not None:
        yield "Messages are refused now. Those that are stored are safe."
    able = [each for each in found.brokers if each.id is not None and each.election and not each.election.unelectable]
    if able:
        best = max(able, key=lambda each: (each.end or 0, each is found.master))
        yield (
            f"That ends with 'gantrymq cluster promote {quote(found.broker)} {best.id} --unclean', as broker id "
            f"{best.id} has the longest log of those that answer, up to offset {best.end or 0}; no restart is needed."
        )
    else:
        yield "That ends with 'gantrymq cluster promote --unclean', as soon as a broker answers that may be the master."


def _fenced(master: ElectedBroker) -> bool:
    return master.election is not None and "is fenced" in master.election.problem


def is_ready(found: ElectedSet, broker_id: int) -> bool:
    """Return whether a member of the set could take over now, with or without a connection to the master."""
    broker = found.by_id(broker_id)
    if broker is None:
        return broker_id in _connected(found)
    if broker.silent or broker.alive is False:
        return False
    return broker.election is None or not (broker.election.apart or broker.election.unelectable)


def _refusals(found: ElectedSet) -> Iterator[str]:
    master, state = found.master, found.told
    if master is None:
        yield f"Messages are refused now: {_no_master(found)}"
        alive = [each for each in found.in_sync if _living(found.by_id(each))]
        gone = [each for each in found.in_sync if each not in alive]
        if alive:
            yield f"That ends when broker id {_either(alive)} is elected, within seconds if nothing else is wrong."
        else:
            yield (
                f"That ends when broker id {_either(gone) or 'of the set'} is back; or 'gantrymq cluster promote "
                f"{found.broker} ID --unclean' elects another one, and acknowledged messages that it lacks are lost."
            )
    elif master.election is None:
        said = "does not answer here" if master.silent else "is RocketMQ's, which does not say so"
        yield f"Whether messages are accepted is not known: the master {said}."
        if master.silent:
            engine = "the controller" if found.controllers else "etcd"
            yield f"If it is silent for {engine} too, another one is elected, see above."
    elif not master.election.problem:
        yield "Messages are accepted."
    else:
        yield f"Messages are refused now: {master.election.problem}."
        able = _able(found)
        lacking = state.least_copies - len(found.in_sync) if state is not None else 0
        if _fenced(master):
            engine = "a controller" if found.controllers else "etcd"
            yield f"That ends when {engine} confirms that broker id {master.id} still is the master, or elects another."
        elif lacks_copies(master) and len(able) < master.election.least_copies:
            least = master.election.least_copies
            more = "another one" if least == len(able) + 1 else f"{least - len(able)} more"
            yield (
                f"That cannot end by itself: minInSyncReplicas={least} can never be met by the brokers that are known, "
                f"{_all(able)}. Start {more}, or set it to {len(able)} or less on each of them and restart them."
            )
        elif lacks_copies(master):
            more = f"{lacking} more of them are" if lacking > 1 else "one more of them is"
            yield f"That ends when {more} in sync: {listed(_out(found)) or 'start another broker'}."
        else:
            yield "That should end within a second or so."


def _no_master(found: ElectedSet) -> str:
    state = found.told
    said = state.problem or state.apart if state is not None else ""
    return f"{said or 'there is no master'}."


def _living(broker: ElectedBroker | None) -> bool:
    if broker is None or broker.silent or broker.alive is False:
        return False
    return broker.election is None or not (broker.election.unelectable or "a person" in broker.election.problem)


def _able(found: ElectedSet) -> list[int]:
    """Return the ids of all brokers that may be in sync, also of those that are away."""
    away = found.master.election.away_since_ms if found.master is not None and found.master.election is not None else {}
    learners = {each.id for each in found.brokers if each.election is not None and each.election.learner}
    known = {*found.in_sync, *away, *(each.id for each in found.brokers if each.id)}
    return sorted(known - learners)


def _out(found: ElectedSet) -> list[int]:
    """Return the ids that are not in sync now: of brokers outside the set, and of members without a connection."""
    connected = _connected(found)
    missing = [each for each in found.in_sync if each != found.master_id and each not in connected]
    return sorted([*missing, *(each.id for each in found.brokers if each.id and each.id not in found.in_sync)])


# --- words ------------------------------------------------------------------------------------------------------------


def _name(broker: ElectedBroker) -> str:
    return f"Broker {broker.address}" if broker.id is None else f"Broker id {broker.id} ({broker.address})"


def listed(ids: Iterable[int]) -> str:
    """Return broker ids for a sentence, as in ``1, 3``; empty without one."""
    return ", ".join(map(str, ids))


def _all(ids: Iterable[int]) -> str:
    *first, last = map(str, ids)
    return f"{', '.join(first)} and {last}" if first else last


def _either(ids: Iterable[int]) -> str:
    return " or ".join(map(str, ids))
