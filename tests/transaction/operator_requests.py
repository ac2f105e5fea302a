"""Requests of operators about transactions; `gantrymq_admin.transactions` has them with types."""

from gantrymq.loose_json import dumps
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.admin import ResumeCheckHalfMessageRequest


async def list_transactions(admin, address, **wanted):
    """65011; members that are null are left out by loose JSON."""
    found = await admin.request_json(address, 65011, None, dumps(wanted), what="transactions")
    return {"next": None, "oldest_born_ms": None, **found}


async def show_transaction(admin, address, unique_id):
    """65012."""
    return await admin.request_json(address, 65012, None, dumps({"unique_id": unique_id}), what="transactions")


async def resume_check(admin, offset_id):
    """323, to the broker named in the id."""
    host, port, _ = parse_offset_id(offset_id)
    header = ResumeCheckHalfMessageRequest(msg_id=offset_id)
    await admin.request(format_address(host, port), RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
