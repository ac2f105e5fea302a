"""Idempotent consumption: the effect of a message is applied once, however often it is delivered.

identity       keys that identify a message across redelivery and repeated sends, including batches
records        interface to a database; implemented by `sqlite_records` and `sqlalchemy_records`
threads        blocking database calls, from an event loop or without one
consuming      the steps: a cache of recent keys, the database, a record in the transaction of the business change
"""
