"""The sink ``gantrymq``: rows as messages, in batch and streaming queries.

options     what a user asks for
rows        columns that rows may have, and the messages they make
sink_ids    an id for each row that is the same when a micro-batch is written again; the check of consumers
sending     messages to brokers, rows of one sharding key in their order
writers     what Spark calls; only this module imports pyspark
"""
