"""The service fulfils the contract of transaction services."""

import pytest

from gantrymq_testing import TransactionContract
from gantrymq_transaction.service import RocketTransactions

pytest.importorskip("gantrymq_storage_memory")


class TestRocketTransactions(TransactionContract):
    make_service = RocketTransactions
