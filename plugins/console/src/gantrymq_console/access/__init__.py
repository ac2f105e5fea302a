"""Who a visitor is, and what the visitor may do."""
