"""State shared by the parts of one client: connections, heartbeats, routes, and requests from brokers."""
