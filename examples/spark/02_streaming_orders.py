# %% [markdown]
# # A stream of orders
# Live topics in, an aggregate out, and back to a topic: source and sink `gantrymq`, with a checkpoint.

# %% A broker for this page. With a cluster of your own, set `namesrv` to its name servers and go on.
import tempfile
from pathlib import Path

from gantrymq_testing.running_broker import RunningBroker

folder = Path(tempfile.mkdtemp(prefix="gantrymq-notebook-"))
broker = RunningBroker(folder / "broker", {"plugins": "storage_mmap,filter_tag,admin", "store": "mmap",
                                           "mappedFileSizeCommitLog": 4 * 1024 * 1024})  # fmt: skip
broker.start()
namesrv = broker.namesrv
for topic in ("Orders", "BigOrders"):
    broker.create_topic(topic)

# %% A session, and orders: rows become messages, `keys` and `tags` as RocketMQ's clients write them.
from pyspark.sql import functions as sql

from gantrymq_spark.session import open_session

spark = open_session()
orders = spark.range(100).select(
    sql.format_string('{"customer": "c%d", "amount": %d}', sql.col("id") % 5, sql.col("id")).alias("body"),
    sql.concat(sql.lit("order-"), "id").alias("keys"),
    sql.when(sql.col("id") % 2 == 0, "web").otherwise("shop").alias("tags"),
)
orders.write.format("gantrymq").option("namesrv", namesrv).option("topic", "Orders").mode("append").save()

# %% The stream reads what is available and stops. Without the trigger it runs until it is stopped.
stream = (
    spark.readStream.format("gantrymq")
    .option("namesrv", namesrv)
    .option("subscribe", "Orders")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "60")
    .option("columns", "body,keys,tags,storeTimestamp")
    .load()
)
order = stream.select(
    "keys", "tags", sql.from_json(sql.col("body").cast("string"), "customer string, amount bigint").alias("order")
)
query = (
    order.groupBy("tags").agg(sql.count("*").alias("orders"), sql.sum("order.amount").alias("amount"))
    .writeStream.format("memory").queryName("by_tag").outputMode("complete")
    .option("checkpointLocation", str(folder / "by_tag"))
    .trigger(availableNow=True)
    .start()
)  # fmt: skip
query.awaitTermination()
spark.table("by_tag").orderBy("tags").show()

# %% Orders of 90 and more go to a topic of their own.
big = order.where("order.amount >= 90").select(sql.col("order.customer").alias("body"), "keys", "tags")
query = (
    big.writeStream.format("gantrymq")
    .option("namesrv", namesrv)
    .option("topic", "BigOrders")
    .option("checkpointLocation", str(folder / "big"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
found = spark.read.format("gantrymq").option("namesrv", namesrv).option("subscribe", "BigOrders").load()
print(f"{found.count()} big orders")

# %%
broker.stop()
