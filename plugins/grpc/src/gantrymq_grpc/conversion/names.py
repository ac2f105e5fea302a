"""Names of topics and groups in requests. The resource namespace is ignored, as by RocketMQ's proxy."""

from typing import Final

from gantrymq.errors import InvalidParameter
from gantrymq.plugin.names import check_group, check_topic, is_system_group, is_system_topic
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import Code, Resource

_LONGEST_NAMESPACE: Final = 255  # it is sent back with each queue of a topic


def topic_of(resource: Resource) -> str:
    """Return the topic that a request names.

    Raises:
        Refused: the name is not legal, or belongs to the broker itself.
    """
    name = resource.name
    try:
        check_topic(name)
    except InvalidParameter as error:
        raise Refused(Code.ILLEGAL_TOPIC, str(error)) from None
    if len(resource.resource_namespace) > _LONGEST_NAMESPACE:
        text = f"the resource_namespace of topic {name} has {len(resource.resource_namespace)} characters"
        raise Refused(Code.ILLEGAL_TOPIC, f"{text}, the longest allowed is {_LONGEST_NAMESPACE}")
    if is_system_topic(name):
        raise Refused(Code.ILLEGAL_TOPIC, "cannot access system topic")
    return name


def group_of(resource: Resource) -> str:
    """Return the consumer group that a request names.

    Raises:
        Refused: the name is not legal, or belongs to the broker itself.
    """
    name = resource.name
    try:
        check_group(name)
    except InvalidParameter as error:
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    if is_system_group(name):
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")
    return name
