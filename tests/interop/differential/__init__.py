"""One script per kind of message, run with the same official client on a Java broker 5.3.3 and on ours.

| file | contents |
|---|---|
| `kinds.py` | the scripts |
| `side.py` | one of the two brokers, and its client |
| `stored.py` | records of a store with their queue entries |
| `normal.py` | replacement of times, ids and addresses |
| `account.py` | the results of a run as lines to compare |
| `named.py` | known differences, each with its reason |
"""
