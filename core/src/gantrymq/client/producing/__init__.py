"""Producers: single sends, batches, requests with a reply, recalls, and transactions."""
