"""Messages for batch queues and light queues."""

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.interfaces import QueueTargets
from gantrymq.model.java import ordered_text
from gantrymq_testing.store_contract_bench import message

LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
EXT = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 128}


def inner(*bodies, topic="B", queue_id=0, **more):
    """An inner batch of *bodies*, as the broker hands it to a store."""
    body = encode_batch(BatchEntry(0, each, b"") for each in bodies)
    text = ordered_text({"UNIQ_KEY": "ID", "INNER_NUM": str(len(bodies))})
    placing = QueueTargets(batch=len(bodies))
    return message(topic, queue_id, body, properties=text, sys_flag=0xC0, queue_targets=placing, **more)


def alone(body=b"alone", topic="B", queue_id=0, **more):
    """One message for a batch queue."""
    return message(topic, queue_id, body, queue_targets=QueueTargets(batch=1), **more)


def fanned(*names, topic="T", body=b"fanned", tag="", **more):
    """A message that names light queues."""
    own = {"INNER_MULTI_DISPATCH": ",".join(names), **({"TAGS": tag} if tag else {})}
    return message(topic, 0, body, tag, properties=ordered_text(own), queue_targets=QueueTargets(light=names), **more)
