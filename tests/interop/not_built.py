"""What clients may ask for and this version does not do, with the answer they get.

`test_not_built.py` asks for each; `compatibility.py` writes the table into docs/compatibility.md.
"""

from typing import NamedTuple


class NotBuilt(NamedTuple):
    """One thing asked for and its answer."""

    what: str
    request: int
    ext: dict[str, str]
    code: int
    says: str  # part of the answer's remark


TOPIC = "NotBuilt"

TABLE = (
    NotBuilt("static topics", 513, {"topic": TOPIC}, 3, "static topics are not built in this version"),
    NotBuilt("users and permissions", 3001, {}, 3, "access control is not built in this version"),
)
