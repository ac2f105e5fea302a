"""Request and reply: a reply goes to the producer that asked."""
