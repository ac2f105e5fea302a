"""Values of access decisions: actions, resources, principals.

Source: apache/rocketmq common/.../action/Action.java, common/.../resource/ResourceType.java.
"""

from __future__ import annotations

import base64
import enum
import hmac
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import attrs

from gantrymq.model import names


class Action(enum.Enum):
    """What a request does to a resource, with RocketMQ's name for it."""

    __hash__ = object.__hash__  # members are unique; Enum's own is a slow part of a cached decision

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"


class ResourceType(enum.Enum):
    """The kind of a resource, with RocketMQ's name for it."""

    __hash__ = object.__hash__

    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """A topic, a consumer group, or the broker's cluster."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.value}:{self.name}"


class Requirement(NamedTuple):
    """One condition of a request: at least one of the actions is allowed on the resource."""

    actions: Sequence[Action]
    resource: Resource


@attrs.frozen(cache_hash=True)
class Principal:
    """An authenticated client. Decisions are cached per principal, so it has everything that they depend on."""

    name: str
    source: str = ""  # address of the client, if decisions depend on it
    request: int | str = 0  # `Credentials.request`, if decisions depend on it


class Decision(NamedTuple):
    """An answer to whether a principal may perform an action."""

    allowed: bool
    reason: str = ""  # for the client, if not allowed; empty: a sentence with principal, action and resource
    code: int = 16  # response code, if not allowed: NO_PERMISSION


CLUSTER: Final = Resource(ResourceType.CLUSTER, "")
"""The cluster of the broker that serves the request."""


def is_signature(signature: str, content: bytes, secrets: Iterable[bytes]) -> bool:
    """Return whether *signature* is the HMAC-SHA1 of *content* with one of *secrets*, in base64."""
    given = signature.encode(errors="replace")
    for secret in secrets:  # noqa: SIM110 (a generator takes longer)
        if hmac.compare_digest(given, base64.b64encode(hmac.digest(secret, content, "sha1"))):
            return True
    return False


def topic_resource(topic: str) -> Resource:
    """Return the resource of a topic; for a retry topic this is its group."""
    if topic.startswith(names.RETRY_PREFIX):
        return group_resource(topic.removeprefix(names.RETRY_PREFIX))
    return Resource(ResourceType.TOPIC, topic)


def group_resource(group: str) -> Resource:
    """Return the resource of a consumer group."""
    return Resource(ResourceType.GROUP, group)


def requirements(
    actions: Action | Sequence[Action], *, topics: Iterable[str] = (), groups: Iterable[str] = ()
) -> list[Requirement]:
    """Return the requirements of a request for these topics and groups; for the cluster if none has a name."""
    wanted = (actions,) if isinstance(actions, Action) else tuple(actions)
    named = [*(group_resource(each) for each in groups if each), *(topic_resource(each) for each in topics if each)]
    return [Requirement(wanted, each) for each in named or (CLUSTER,)]
