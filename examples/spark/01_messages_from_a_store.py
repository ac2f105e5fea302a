# %% [markdown]
# # Messages from a store
# The folder of a store, GantryMQ's or RocketMQ's, is a table of messages; no broker is needed.
#
#     pip install -r requirements.txt ./libs/testing './plugins/spark[spark]'

# %% A small store to read. With one of your own, set `store` to the broker's storePathRootDir and go on.
import tempfile
from pathlib import Path

from gantrymq_testing.running_broker import RunningBroker

folder = Path(tempfile.mkdtemp(prefix="gantrymq-notebook-"))
settings = {"plugins": "storage_mmap,filter_tag", "store": "mmap", "mappedFileSizeCommitLog": 4 * 1024 * 1024}
with RunningBroker(folder, settings) as broker:
    broker.create_topic("Orders")
    for number in range(60):
        tag = ("Created", "Paid", "Shipped")[number % 3]
        broker.send("Orders", b"order %d" % number, tags=tag, keys=f"order-{number}", properties={"area": "north"})
    store = str(broker.settings.text("storePathRootDir"))

# %% A session that knows the sources: this one, or `gantrymq_spark.register(spark)` for yours.
from gantrymq_spark.session import open_session

spark = open_session()
messages = spark.read.format("gantrymq.store").option("systemTopics", "false").load(store)
messages.printSchema()

# %% How many of each tag? Only the columns that are named are made.
tags = spark.read.format("gantrymq.store").option("columns", "topic,tags").load(store)
tags.where("topic = 'Orders'").groupBy("tags").count().orderBy("tags").show()

# %% One order, by its key. Bodies are bytes, properties a map.
messages.where("keys = 'order-17'").selectExpr(
    "queueId", "queueOffset", "cast(body as string) as body", "properties['area'] as area"
).show()

# %% The same log as views, for SQL.
messages.createOrReplaceTempView("messages")
spark.sql("select queueId, count(*) as messages, sum(storeSize) as bytes from messages group by 1 order by 1").show()

# %% Damage of the log; no rows mean that there is none.
damage = spark.read.format("gantrymq.damage").load(store)
print(f"{damage.where('damage').count()} damaged stretches")
