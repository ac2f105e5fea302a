"""Transactional messages: kept apart until their producer decides, asked for when it does not.

| Module | |
|---|---|
| `ledger` | which half messages are undecided, and how far both queues are worked off; pure |
| `rules` | what a decision and a check come to; pure |
| `half_text`, `messages` | the properties and the messages that are stored, byte for byte RocketMQ's |
| `copies` | other copies of a half message, and whether it was committed |
| `decision_writer` | decisions of one moment as one append |
| `decision_handler`, `half_checker` | request 37, and the rounds of the timer |
| `reading` | half and op messages from the store |
| `service` | the transaction service, made of these |
| `requests`, `listing`, `commands` | what operators see |
"""
