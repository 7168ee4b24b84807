"""lineage: what versions came from and what stands on them, as one graph per tenant."""
