"""Metrics of a GantryMQ broker as Prometheus text, and a health check, on a separate port."""
