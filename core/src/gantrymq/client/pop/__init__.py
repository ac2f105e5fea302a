"""Pop: brokers hand messages out one by one, hide them for a while, and give back what was not acknowledged.

receipts  what a consumer shows to acknowledge a message, made of a pop's answer
calls     the requests: pop, acknowledge, change the invisible time
keeping   messages in hand: acknowledged together, renewed
loops     `async for`
run       pops under way, and what they brought
consumer  the consumer itself
"""
