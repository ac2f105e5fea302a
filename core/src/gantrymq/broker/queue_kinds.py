"""Special queues: light queues, each of which is a topic, and batch queues.

Settings and topics that need queues that the store does not support are refused at startup.

Like a Java broker, the minimum offset reported for a batch queue that never had a message is -1.
"""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, PluginError
from gantrymq.interfaces import Bounds, MessageStore, StoreCapabilities, StoreFeature
from gantrymq.model.topic import TopicConfig

_BY_SETTING = {"enableLmq": StoreFeature.LIGHT_QUEUES, "enableConsumeQueueExt": StoreFeature.EXT_UNITS}


def serves_light_queues(settings: Settings) -> bool:
    """Return whether consumers can use ``%LMQ%`` topics; the store plugin declares the setting."""
    return "enableLmq" in settings.schema and settings.flag("enableLmq")


def reported_min_offset(topic: TopicConfig | None, bounds: Bounds) -> int:
    """Return the minimum offset of a queue of *topic* to report to clients."""
    never_used = bounds.max_offset == 0 and topic is not None and topic.has_batch_queues
    return -1 if never_used else bounds.min_offset


def detect(name: str, store: MessageStore) -> StoreCapabilities:
    """Return the features of *store*, called *name*. Raises PluginError if it lacks a method that every store has."""
    missing = [each for each in vars(MessageStore) if not each.startswith("_") and not hasattr(store, each)]
    if missing:
        raise PluginError(
            f"store={name} has no {', '.join(missing)}, which every store needs (gantrymq.interfaces.MessageStore); "
            "correct its plugin, or use store=mmap"
        )
    return StoreCapabilities.of(store)


def check_settings(settings: Settings, store: StoreCapabilities) -> None:
    """Refuse settings that need another store. Raises ConfigError."""
    for key, feature in _BY_SETTING.items():
        if feature not in store.features and key in settings.schema and settings.flag(key):
            name = settings.text("store")
            raise ConfigError(
                f"{key}=true needs a store with {feature.value}, which store={name} does not support; remove {key}, or "
                "use store=mmap"
            )


def batch_queues_problem(settings: Settings, store: StoreCapabilities) -> str:
    """Return why topics cannot have batch queues, to be appended to "topic T: "; empty if they can."""
    if StoreFeature.BATCH_QUEUES in store.features:
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
