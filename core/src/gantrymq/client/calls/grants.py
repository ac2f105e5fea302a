"""What a refusal of access control says is missing, and the command that grants it."""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

from gantrymq.remoting.codes import RequestCode

_MISSING: Final = re.compile(
    r"User:(?P<user>.+?) has no permission to access (?P<type>Topic|Group|Cluster):(?P<name>[\w%|.-]*[\w%|-])"
)
_NAMED: Final = re.compile(r"\b(Pub|Sub|Create|Update|Delete|Get)\b(?: or \w+)* is not allowed")
_COMMAND: Final = "gantrymq acl "  # in texts of our brokers
_DENIED: Final = "the decision is deny"
_NO_ACCOUNT: Final = ("username cannot be null", "No accessKey is configured")  # of RocketMQ 5, and of 4.4 to 5.2
_UNKNOWN: Final = re.compile(r"check signature failed|User:.+ is (not found|disabled)")

_PUB: Final = (
    *(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE),
    *(RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE),
    *(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
)
_SUB: Final = (
    *(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT),
    *(RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ),
    *(RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.CONSUME_MESSAGE_DIRECTLY, RequestCode.QUERY_ASSIGNMENT),
    *(RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.PEEK_MESSAGE, RequestCode.NOTIFICATION),
    *(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.BATCH_ACK_MESSAGE),
)
_CREATE: Final = (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
_DELETE: Final = (RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_SUBSCRIPTIONGROUP)
_UPDATE: Final = (
    *(RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    *(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.CLONE_GROUP_OFFSET),
    *(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER),
    *(RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL),
)
_ACTIONS: Final[dict[int, str]] = {
    **dict.fromkeys(_PUB, "Pub"),
    **dict.fromkeys(_SUB, "Sub"),
    **dict.fromkeys(_CREATE, "Create"),
    **dict.fromkeys(_DELETE, "Delete"),
    **dict.fromkeys(_UPDATE, "Update"),
}
"""The action that RocketMQ wants for a request; for others ``Get``."""


def advice(remark: str, code: int) -> str:
    """Return what helps against a refusal, such as the command that grants what is missing; empty if it says so itself.

    Args:
        remark: of the response, from a broker of ours or of RocketMQ.
        code: of the request; 0 if unknown.
    """
    if _COMMAND in remark:
        return ""
    if any(each in remark for each in _NO_ACCOUNT):
        return "it has no account: set $GANTRYMQ_ACCESS_KEY and $GANTRYMQ_SECRET_KEY, or the credentials of the client"
    found = _MISSING.search(remark)
    if found is None or _UNKNOWN.search(remark):
        return "check its credentials (access key, secret key) and what they are allowed"
    user, resource = found["user"], f"{found['type']}:{found['name']}"
    named = _NAMED.search(remark)
    action = named[1] if named else _ACTIONS.get(code, "Get")
    if found["type"] == "Group" and action == "Pub":
        action = "Sub"  # a send to a retry topic
    if _DENIED in remark:
        return f"an entry denies it; find it with: gantrymq access explain {quote(user)} {action} {quote(resource)}"
    if not named and not code:
        return f"see what it may do with: gantrymq acl get {quote(user)}"
    return f"an operator grants it with: gantrymq acl grant {quote(user)} -r {quote(resource)} -a {action}"
