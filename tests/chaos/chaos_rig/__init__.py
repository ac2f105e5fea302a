"""Code shared by the scenarios: killed and frozen servers, Java clients that keep running meanwhile, a hostile proxy.

| module | content |
|---|---|
| scale | how long a scenario runs |
| clients | senders and push consumers of the official client, and how many messages they have seen |
| proxy | a TCP proxy that cuts, holds, drips and delays, and throws garbage |
"""
