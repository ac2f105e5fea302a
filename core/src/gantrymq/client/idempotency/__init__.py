"""Idempotent consumption: the effect of a message is applied once, however often it is delivered.

cache          keys of recently consumed messages, so that most duplicates need no query
identity       keys that identify a message across redelivery and repeated sends, including batches
records        interface to a database; implemented by `sqlite_records` and `sqlalchemy_records`
threads        blocking database calls from an event loop; `caller_thread` without an event loop
consuming      the steps: cache, database, a record in the transaction of the business change
"""
