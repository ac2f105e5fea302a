"""Simulated file faults for tests: crashes, power cuts, full disks, errors, bit flips and slow calls, from a seed."""

from gantrymq_storage_faults.calls import Crashed
from gantrymq_storage_faults.files import FaultyFiles, flip_bit
from gantrymq_storage_faults.machine import Machine, PowerCut
from gantrymq_storage_faults.pages import PAGE_BYTES
from gantrymq_storage_faults.plan import CHANGES, IMPLICIT_OPERATIONS, READS, Failure, FaultPlan, Slowness
from gantrymq_storage_faults.raw_log import FaultyRawLog
from gantrymq_storage_faults.workers import LateWorkers

__all__ = [
    "CHANGES",
    "IMPLICIT_OPERATIONS",
    "PAGE_BYTES",
    "READS",
    "Crashed",
    "Failure",
    "FaultPlan",
    "FaultyFiles",
    "FaultyRawLog",
    "LateWorkers",
    "Machine",
    "PowerCut",
    "Slowness",
    "flip_bit",
]
