"""cards: what is known of a version, told to people (model card) and to tools (bill of materials)."""
