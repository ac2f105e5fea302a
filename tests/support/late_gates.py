"""A gate that is put before the acknowledgement of a broker that runs already."""

import gc
from types import SimpleNamespace

from gantrymq.broker.sending import pipeline


def put_gate(monkeypatch, store, passed):
    """Let messages of the broker on *store* wait for ``passed(log_offset)``."""
    (found,) = [each for each in gc.get_objects() if isinstance(each, pipeline.Pipeline) and each._store is store]
    gate = SimpleNamespace(name="late", passed=passed)
    monkeypatch.setattr(found, "_gates", (gate,))
    monkeypatch.setattr(found, "_asks", (pipeline._ask_of(gate),))
