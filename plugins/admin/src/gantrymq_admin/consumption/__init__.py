"""Which consumer groups consumed a message, with the evidence.

    facts         the known facts about a message and about each group
    verdicts      the verdict that follows from the facts; pure
    evidence      why, as a word and values, with the English sentence and the JSON of the command line
    fact_queries  requests with one deadline and the list of failed ones, routes, and records with one unique id
    copies        copies of a message, its original, and the tries in its trace
    pops          pops that are in flight
    groups        the facts of one group, its filter, and groups that read through a light queue
    gather        asks for everything within the deadline

`consumers_of` is the entry point.
"""

from __future__ import annotations

from gantrymq_admin.consumption.copies import Traced
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
from gantrymq_admin.consumption.groups import LightReader
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
