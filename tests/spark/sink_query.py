"""A stream from a folder with JSON into a topic, slowly; run by `test_sink_spark` and killed there.

sink_query.py NAMESRV TOPIC FOLDER CHECKPOINT
"""

import sys
from pathlib import Path

from gantrymq_spark.session import open_session

SLOWLY = "reflect('java.lang.Thread', 'sleep', 1L)"  # a ms for each row


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
    bodies = frame.selectExpr(f"to_json(struct(n, {SLOWLY} as slept)) as body")
    query = (
        bodies.writeStream.format("gantrymq")
        .options(namesrv=namesrv, topic=topic, checkpointLocation=checkpoint, batchMessages="20")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
