"""Files that crash, lose power, run full, fail, flip bits and dawdle, by a seed. For tests of whatever writes files."""

from gantrymq_storage_faults.calls import Crashed
from gantrymq_storage_faults.files import FaultyFiles, flip_bit
from gantrymq_storage_faults.machine import Machine, PowerCut
from gantrymq_storage_faults.pages import PAGE_BYTES
from gantrymq_storage_faults.plan import CHANGES, READS, UNCALLED, Failure, Plan, Slowness
from gantrymq_storage_faults.workers import LateWorkers

__all__ = [
    "CHANGES",
    "PAGE_BYTES",
    "READS",
    "UNCALLED",
    "Crashed",
    "Failure",
    "FaultyFiles",
    "LateWorkers",
    "Machine",
    "Plan",
    "PowerCut",
    "Slowness",
    "flip_bit",
]
