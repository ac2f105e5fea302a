"""The consumer of a group: queues shared out among its members, messages handed out, tried again, acknowledged.

sharing   which queues are ours: every 20 s, and when the broker says that the members changed
pulling   one task for each of them, within the limits of `settings`
held      what was pulled of a queue and is not finished; its first unfinished offset is the group's progress
handing   who gets which message next: any, or one at a time of each queue (orderly)
failing   a message that failed: sent back to the broker for later, or tried again here
progress  offsets at the brokers, or for broadcasting in a file
answers   what brokers ask a consumer
consumer  the consumer itself
"""
