"""What the durability tests share: brokers as processes, a load that keeps a ledger, a watched broker in process."""
