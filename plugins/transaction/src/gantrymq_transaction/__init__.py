"""Transactional messages: stored aside until their producer decides, and checked if it does not.

| Module | |
|---|---|
| `ledger` | which half messages are undecided, and the positions of both queues; pure |
| `rules` | the outcome of a decision or a check; pure |
| `half_text`, `half_text_reader`, `messages` | properties and messages as stored, byte for byte RocketMQ's |
| `copies` | other copies of a half message, and whether it was committed |
| `decision_writer` | stores the decisions of one moment as one append |
| `decision_handler`, `half_checker` | request 37, and the periodic checks |
| `reading` | reads half and op messages from the store |
| `service` | the transaction service, built from these |
| `requests`, `listing`, `admin`, `commands` | inspection by operators |
"""
