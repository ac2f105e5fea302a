"""Which consumer groups consumed a message, with the evidence.

    facts      the known facts about a message and about each group
    verdicts   the verdict that follows from the facts; pure
    evidence   why, as a word and values; pure
    sentences  the English sentence of that, for the command line
    asking     requests with one deadline, and the list of failed ones
    routes     which brokers have a topic
    records    records with one unique id, queried broker by broker: copies of a message, and its trace
    light      groups that read it through a light queue
    copies     whether a record is a copy of a message
    delayed    copies that wait for a delay
    pops       pops that are in flight
    tries      the tries in the trace
    originals  the kind of a given message, and the message it is a copy of
    filtering  whether a group's subscription matches the message
    groups     the facts of one group
    gather     asks for everything within the deadline

`consumers_of` is the entry point.
"""

from __future__ import annotations

from gantrymq_admin.consumption.facts import (
    Copy,
    Fact,
    Fit,
    GroupFacts,
    Kind,
    MemberPosition,
    MessageFacts,
    MissingFact,
    Pop,
    Stage,
    Try,
)
from gantrymq_admin.consumption.gather import Consumption, consumers_of
from gantrymq_admin.consumption.light import LightReader
from gantrymq_admin.consumption.tries import Traced
from gantrymq_admin.consumption.verdicts import Certainty, Reason, Verdict, verdict

__all__ = [
    "Certainty",
    "Consumption",
    "Copy",
    "Fact",
    "Fit",
    "GroupFacts",
    "Kind",
    "LightReader",
    "MemberPosition",
    "MessageFacts",
    "MissingFact",
    "Pop",
    "Reason",
    "Stage",
    "Traced",
    "Try",
    "Verdict",
    "consumers_of",
    "verdict",
]
