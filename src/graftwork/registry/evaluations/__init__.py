"""evaluations: what was measured of versions, kept, compared and followed over time."""
