"""Reasons as words with values, and their sentences in English; ``texts/`` has the texts of each language.

Brokers send both. Tools that know the word make a sentence in the language of the reader from the values, and show the
English one otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import attrs

from gantrymq.plugin.model import Text, Value, sentence_of, texts_in

SENTENCE: Final = "sentence"  # the value of a word without a text: what a plugin reports


@attrs.frozen
class Reason:
    """Why a group receives nothing from a queue, a finding about a group, or a conflict between its members."""

    word: str  # stable
    values: Mapping[str, Value] = attrs.field(factory=dict)
    variant: str = ""  # which text of the word fits, if it has several

    @property
    def sentence(self) -> str:
        """The English sentence."""
        key = f"{self.word}.{self.variant}" if self.variant else self.word
        return sentence_of(_english().get(key, f"{{{SENTENCE}}}"), self.values)

    def as_json(self) -> dict[str, Any]:
        """Return the members of a response."""
        return {"reason": self.word, "variant": self.variant, "values": dict(self.values), "sentence": self.sentence}


@cache
def _english() -> Mapping[str, Text]:
    return texts_in("gantrymq_diagnosis", "en")
