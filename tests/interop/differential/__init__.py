"""One script per kind of message, run against a Java broker 5.3.3 and against ours with the same official client.

| file | has |
|---|---|
| `kinds.py` | the scripts |
| `side.py` | one of the two brokers, and the client at work for it |
| `stored.py` | what a store has: records with their queue entries |
| `normal.py` | the same without times, ids and addresses |
| `account.py` | all that a run left, as lines to compare |
| `named.py` | the differences that are known, each with its reason |
"""
