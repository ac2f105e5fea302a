"""The service keeps what every transaction service promises."""

from gantrymq_testing import TransactionContract
from gantrymq_transaction.service import RocketTransactions


class TestRocketTransactions(TransactionContract):
    make_service = RocketTransactions
