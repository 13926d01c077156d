"""A replay in several processes: one that prefills, one that decodes, and what goes wrong between them."""
