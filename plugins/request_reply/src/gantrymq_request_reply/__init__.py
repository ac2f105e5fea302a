"""Request and reply: delivers replies to the requesting producer."""
