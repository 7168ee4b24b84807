"""Bottleneck adapters (Houlsby, Pfeiffer, parallel, Compacter) as the `adapters` library saves them."""
