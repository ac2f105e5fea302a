"""Refusals of what the store does not support: at startup by settings and topics, later by requests."""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, RequestRefused
from gantrymq.interfaces import MessageStore, StoreFeature
from gantrymq.model.topic import TopicConfig

_BY_SETTING = {"enableLmq": StoreFeature.LIGHT_QUEUES, "enableConsumeQueueExt": StoreFeature.EXT_UNITS}


def check_settings(settings: Settings, store: MessageStore) -> None:
    """Refuse settings that need another store. Raises ConfigError."""
    for key, feature in _BY_SETTING.items():
        if feature not in store.supports and key in settings.schema and settings.flag(key):
            name = settings.text("store")
            raise ConfigError(
                f"{key}=true needs a store with {feature.value}, which store={name} does not support; remove {key}, or "
                "use store=mmap"
            )


def batch_queues_problem(settings: Settings, store: MessageStore) -> str:
    """Return why topics cannot have batch queues, to be appended to "topic T: "; empty if they can."""
    if StoreFeature.BATCH_QUEUES in store.supports:
        return ""
    return (
        f"queue.type=BatchCQ needs a store with {StoreFeature.BATCH_QUEUES.value}, which "
        f"store={settings.text('store')} does not support; leave the attribute out, or use store=mmap"
    )


def check_topics(problem: str, topics: Iterable[TopicConfig]) -> None:
    """Refuse stored topics with batch queues because of *problem*, if there is one. Raises ConfigError."""
    for topic in topics if problem else ():
        if topic.has_batch_queues:
            raise ConfigError(f"topic {topic.name}: {problem}")


def require(store: MessageStore, feature: StoreFeature) -> None:
    """Refuse a request that needs *feature*. Raises RequestRefused."""
    if feature not in store.supports:
        raise RequestRefused(1, f"the broker's store does not support {feature.value}; see its setting store")
