"""Text form of queues, for settings.

    TopicTest/broker-a/0-3,TopicTest/broker-a/7,TopicTest/broker-b/0

One entry has a topic, a broker, and one queue id or an inclusive range. The previous state of a group is a JSON object
from client id to such a text: {"10.0.0.1@7#1": "TopicTest/broker-a/0-3"}.
"""

from __future__ import annotations

import json
import re

from gantrymq.plugin.model import MessageQueue

_MAX_QUEUE_ID = 65_535
_ENTRY = re.compile(r"([^/,]+)/(.+)/(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_FORM = "TOPIC/BROKER/ID or TOPIC/BROKER/FIRST-LAST, separated by commas"


def parse_queues(text: str) -> list[MessageQueue]:
    """Parse a list of queues, in order; empty for the empty text.

    Raises:
        ValueError: an entry is malformed, its range is reversed, or an id is above 65535.
    """
    queues: list[MessageQueue] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        found = _ENTRY.fullmatch(entry)
        first = int(found[3]) if found else 0
        last = int(found[4] or found[3]) if found else 0
        if found is None or not first <= last <= _MAX_QUEUE_ID:
            raise ValueError(f"{_FORM}; the entry {entry!r} is not")
        queues += [MessageQueue(found[1], found[2], queue_id) for queue_id in range(first, last + 1)]
    return queues


def parse_previous(text: str) -> dict[str, list[MessageQueue]]:
    """Parse the queues of each client id; empty for the empty text.

    Raises:
        ValueError: not a JSON object of strings, a malformed list of queues, or a queue with two members.
    """
    try:
        members = json.loads(text or "{}")
    except ValueError:
        members = None
    if not isinstance(members, dict) or not all(isinstance(queues, str) for queues in members.values()):
        raise ValueError(f'a JSON object from client id to queues, such as {{"ID": "{_FORM.split(" or ")[0]}"}}')
    previous = {client_id: parse_queues(queues) for client_id, queues in members.items()}
    owner: dict[MessageQueue, str] = {}
    for client_id, queues in previous.items():
        for queue in queues:
            if queue in owner:
                raise ValueError(f"free of doubles; {queue} is given to {owner[queue]} and to {client_id}")
            owner[queue] = client_id
    return previous
