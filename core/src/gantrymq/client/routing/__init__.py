"""Where servers are: addresses of name servers, and routes of topics."""
