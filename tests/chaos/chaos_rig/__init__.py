"""What the scenarios share: servers that are killed and frozen, Java clients that go on meanwhile, a hostile proxy.

| module | has |
|---|---|
| scale | how long a scenario runs |
| clients | senders and push consumers of the official client, and how many messages they have seen |
| judging | whether everything acknowledged is there, came, and came in its order |
| proxy | a TCP proxy that cuts, holds, drips and delays, and throws garbage |
"""
