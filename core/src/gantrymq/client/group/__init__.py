"""Consumers of a group: rebalancing, delivery to the application, redelivery and acknowledgement.

rebalancer        assigns queues to this member: every 20 s, and when a broker reports changed members
pulling           one pull task per assigned queue, within the limits of `settings`
process_queue     unfinished messages of one queue; the lowest unfinished offset is the group's offset to commit
delivery_queue    decides which message is delivered next; in orderly mode one at a time per queue
in_flight         delivered messages until they are consumed, failed or timed out
redelivery        failed messages: sent back to the broker, or retried here
offset_store      stored offsets: at the brokers, or in a file for broadcasting
broker_callbacks  requests of brokers to a consumer
consumer          the public consumer class
"""
