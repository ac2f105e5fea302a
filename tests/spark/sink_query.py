"""A stream from a folder with JSON into a topic, slowly; run by `test_sink_spark` and killed there.

sink_query.py NAMESRV TOPIC FOLDER CHECKPOINT
"""

import sys
import time
from pathlib import Path

from gantrymq_spark.session import open_session


def slowly(batches):
    for batch in batches:
        time.sleep(0.02)
        yield batch


def main(namesrv: str, topic: str, folder: str, checkpoint: str) -> None:
    """Send what is there."""
    scratch = str(Path(checkpoint).parent / "warehouse")
    conf = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.sql.warehouse.dir": scratch,
        "spark.log.level": "ERROR",
    }
    session = open_session("local[2]", conf, name="sink_query")
    frame = session.readStream.schema("n int").option("maxFilesPerTrigger", 1).json(folder)
    bodies = frame.selectExpr("to_json(struct(*)) as body").mapInArrow(slowly, "body string")
    query = (
        bodies.writeStream.format("gantrymq")
        .options(namesrv=namesrv, topic=topic, checkpointLocation=checkpoint, batchMessages="20")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
