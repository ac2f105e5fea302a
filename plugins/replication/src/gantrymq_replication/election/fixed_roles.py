"""What a start with fixed roles does to a store that was written with elected ones.

A list of epochs tells which master wrote what. Masters of fixed roles are in no list, so after records of theirs it
would claim that logs are equal that are not. Therefore it is removed, with the confirm offset: in a later election all
records are those of fixed roles, and slaves compare them (`log_comparison`). The broker keeps its id.
"""

from __future__ import annotations

import logging

from gantrymq.interfaces import Broker
from gantrymq_replication.election.elected_log import confirm_file
from gantrymq_replication.election.epochs import EpochFile, EpochList
from gantrymq_replication.settings import epoch_path

__all__ = ["forget_epochs"]

log = logging.getLogger("gantrymq.replication")


async def forget_epochs(broker: Broker) -> None:
    """Remove the epochs of the log, before anything is appended to it."""
    files, epochs = broker.world.files, EpochFile(broker.world.files, epoch_path(broker.settings, broker.root))
    if epochs.exists:
        await broker.world.workers.run(epochs.save, EpochList())
        log.warning("the roles are fixed now, so the epochs of the log were removed: %s", epochs.path)
    if files.stat(confirm_file(broker)) is not None:
        await broker.world.workers.run(files.remove, confirm_file(broker))
