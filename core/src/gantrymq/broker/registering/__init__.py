"""Registration of the broker and its topics with name servers."""
