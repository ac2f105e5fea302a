# %% [markdown]
# # Archive and query
# Topics are archived as Parquet; a query reads the archive, and later messages from brokers.
# On the command line the same is `gantrymq pipeline archive` and `gantrymq pipeline query`.

# %% A broker for this page. With a cluster of your own, set `namesrv` to its name servers and go on.
import tempfile
from pathlib import Path

from gantrymq_testing.running_broker import RunningBroker

folder = Path(tempfile.mkdtemp(prefix="gantrymq-notebook-"))
broker = RunningBroker(folder / "broker", {"plugins": "storage_mmap,filter_tag,admin", "store": "mmap",
                                           "mappedFileSizeCommitLog": 4 * 1024 * 1024})  # fmt: skip
broker.start()
namesrv = broker.namesrv
broker.create_topic("Orders")


def send(first: int, end: int) -> None:
    for number in range(first, end):
        broker.send("Orders", b"order %d" % number, keys=f"order-{number}", properties={"amount": str(number)})


send(0, 50)

# %% The first run writes everything, the second only new messages. A stopped run continues where it stopped.
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.query import Search, query
from gantrymq_spark.session import open_session

spark = open_session()
kept = str(folder / "archive")
orders = Input(topics=("Orders",), namesrv=namesrv)
print(f"{archive(spark, orders, kept).messages} messages archived")
send(50, 80)
print(f"{archive(spark, orders, kept).messages} messages archived")

# %% Fifteen more are only at the broker. Archive and broker together have each message once.
send(80, 95)
both = Input(topics=("Orders",), namesrv=namesrv, archive=kept)
everything = query(spark, both, live=True)
print(f"{everything.count()} messages")

# %% By key, and by an expression of RocketMQ's SQL92 over properties.
query(spark, both, Search(key="order-7"), ["queueId", "queueOffset", "keys", "properties"], live=True).show()
dear = Input(topics=("Orders",), namesrv=namesrv, archive=kept, sql92="amount BETWEEN 40 AND 44")
query(spark, dear).selectExpr("keys", "cast(body as string) as body").orderBy("keys").show()

# %% It is plain Parquet, by topic and day.
broker.stop()
