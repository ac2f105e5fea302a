"""The transaction contract passes the simplest service."""

import sys
from pathlib import Path

import pytest

from gantrymq_testing import TransactionContract

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "broker"))
from memory_transactions import MemoryTransactions

pytest.importorskip("gantrymq_storage_memory")


class TestPlainest(TransactionContract):
    make_service = MemoryTransactions
