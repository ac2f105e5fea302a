"""Codes of answers."""

import pytest

pytest.importorskip("gantrymq_grpc")

from gantrymq import errors
from gantrymq_grpc.conversion.codes import Refused, code_of, ok, overall, status_of
from gantrymq_grpc.definitions import Code, Status


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(Code.ILLEGAL_TOPIC, "t"), Code.ILLEGAL_TOPIC),
        (errors.TopicNotExist("t"), Code.TOPIC_NOT_FOUND),
        (errors.GroupNotExist("t"), Code.CONSUMER_GROUP_NOT_FOUND),
        (errors.NoPermission("t"), Code.FORBIDDEN),
        (errors.AccessRefused(16, "t"), Code.UNAUTHORIZED),
        (errors.AccessRefused(1, "t"), Code.UNAUTHORIZED),
        (errors.RequestRefused(2, "t"), Code.TOO_MANY_REQUESTS),
        (errors.RequestRefused(1, "t"), Code.INTERNAL_SERVER_ERROR),
        (errors.RequestNotSupported("t"), Code.NOT_IMPLEMENTED),
        (errors.InvalidParameter("t"), Code.BAD_REQUEST),
        (errors.SubscriptionParseFailed("t"), Code.ILLEGAL_FILTER_EXPRESSION),
        (errors.CallTimeout("t"), Code.PROXY_TIMEOUT),
        (errors.ServiceNotAvailable("t"), Code.INTERNAL_SERVER_ERROR),
        (errors.ReceiptIllegal("t"), Code.INVALID_RECEIPT_HANDLE),
        (errors.PoppedMessageGone("t"), Code.INVALID_RECEIPT_HANDLE),
        (errors.FlushDiskTimeout("t"), Code.MASTER_PERSISTENCE_TIMEOUT),
        (errors.FlushSlaveTimeout("t"), Code.SLAVE_PERSISTENCE_TIMEOUT),
        (errors.SlaveNotAvailable("t"), Code.HA_NOT_AVAILABLE),
        (errors.BodyEmpty("t"), Code.MESSAGE_BODY_EMPTY),
        (errors.BodyTooLarge("t"), Code.MESSAGE_BODY_TOO_LARGE),
        (errors.PropertiesTooLarge("t"), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (errors.NotWritable("t"), Code.FORBIDDEN),
        (errors.DiskFull("t"), Code.INTERNAL_SERVER_ERROR),
        (errors.StoreDamaged("t"), Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_each_kind_of_error_has_its_code(error, code):
    assert code_of(error) == code
    assert status_of(error) == Status(code=code, message="t")


def test_the_status_of_an_answer_with_entries():
    gone = Status(code=Code.INVALID_RECEIPT_HANDLE, message="gone")
    assert overall([ok(), ok()], without_any="none") == ok()
    assert overall([gone], without_any="none").code == Code.INVALID_RECEIPT_HANDLE
    assert overall([ok(), gone], without_any="none") == Status(code=Code.MULTIPLE_RESULTS, message="MULTIPLE_RESULTS")
    assert overall([], without_any="none") == Status(code=Code.BAD_REQUEST, message="none")
