"""How commands show the body of a message."""

from __future__ import annotations

import base64

__all__ = ["body_members", "body_text"]


def body_text(body: bytes, problem: str) -> str:
    """A body for people; where there is a *problem* with it, that."""
    return f"(no body can be shown: {problem})" if problem else body.decode("utf-8", "backslashreplace")


def body_members(body: bytes, problem: str) -> dict[str, str]:
    """A body for scripts: ``body`` as text, or ``body_base64`` where it is not UTF-8.

    One with a *problem* is given as it is stored, as ``body_base64``, beside ``body_problem``.
    """
    if problem:
        return {"body_problem": problem, "body_base64": base64.b64encode(body).decode()}
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
