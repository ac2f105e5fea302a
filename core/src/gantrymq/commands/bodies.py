"""Output of message bodies by commands."""

from __future__ import annotations

import base64

__all__ = ["body_members", "body_text"]


def body_text(body: bytes, problem: str) -> str:
    """Return a body as text for people, or a note with the *problem*."""
    return f"(no body can be shown: {problem})" if problem else body.decode("utf-8", "backslashreplace")


def body_members(body: bytes, problem: str) -> dict[str, str]:
    """Return a body for scripts: ``body`` as text, or ``body_base64`` if it is not UTF-8.

    A body with a *problem* is returned as stored in ``body_base64``, with ``body_problem``.
    """
    if problem:
        return {"body_problem": problem, "body_base64": base64.b64encode(body).decode()}
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
