"""The sink of format ``gantrymq``: sends rows of a DataFrame as messages.

options     the user's options; accepted columns and types, and ignored columns of messages
rows        converts one row to a message with its order and its id, and times without a zone
sending     sends the messages of one Arrow batch: in batches, in order if requested, with retries
writers     the classes that Spark calls; only this and `dedup` import pyspark
dedup       for consumers: removes messages with repeated ids
"""
