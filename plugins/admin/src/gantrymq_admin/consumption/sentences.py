"""English sentences for verdicts, for the command line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gantrymq.plugin.commands import local_time
from gantrymq.plugin.model import Text, Value, sentence_of, texts_in
from gantrymq_admin.consumption.evidence import evidence
from gantrymq_admin.consumption.facts import MessageFacts, MissingFact
from gantrymq_admin.consumption.verdicts import Verdict

__all__ = ["missing_sentence", "sentence"]


def sentence(message: MessageFacts, found: Verdict) -> str:
    """Return one sentence with the evidence of a verdict."""
    said = evidence(message, found)
    return sentence_of(
        _texts("evidence")[said.word], {name: _shown(name, value) for name, value in said.values.items()}
    )


@cache
def _texts(part: str) -> Mapping[str, Text]:
    texts: Mapping[str, Text] = texts_in("gantrymq_admin", "en")[part]
    return texts


def _shown(name: str, value: Value) -> Value:
    if name == "facts":
        return ", ".join(str(_texts(name)[word]) for word in str(value).split())
    if not name.endswith("_at"):
        return value
    return local_time(value, fraction=True) if isinstance(value, int) else "an unknown time"


def missing_sentence(missing: MissingFact) -> str:
    """Return what could not be asked, and why."""
    where = f" of {missing.broker}" if missing.broker else ""
    of_group = f" for group {missing.group}" if missing.group else ""
    return f"{missing.fact.value}{where}{of_group}: {missing.detail or _WHY.get(missing.why, missing.why)}"


_WHY = {
    "no-unique-id": "the message has no unique id, so its copies cannot be found",
    "not-indexed": "the broker's index does not have the message, so its copies cannot be found",
}
