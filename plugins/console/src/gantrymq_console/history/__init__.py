"""The history of a cluster: samples and events that the console keeps, and how pages read them."""
