"""A stream from a topic into Parquet, slowly; run by `test_live_killed` and killed there.

live_query.py NAMESRV TOPIC FOLDER CHECKPOINT
"""

import sys
from pathlib import Path

from gantrymq_spark.session import open_session

SLOWLY = "reflect('java.lang.Thread', 'sleep', 5L)"  # ms for each row


def main(namesrv: str, topic: str, folder: str, checkpoint: str) -> None:
    """Micro-batches of 20 messages, until it is killed."""
    conf = {"spark.sql.warehouse.dir": str(Path(checkpoint).parent / "warehouse"), "spark.log.level": "ERROR"}
    session = open_session("local[2]", conf, name="live_query")
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    frame = session.readStream.format("gantrymq").options(**options).load()
    rows = frame.selectExpr("queueId", "queueOffset", "cast(body as string) as body", f"{SLOWLY} as slept")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="100 milliseconds").start(folder).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
