"""Adapters for serving engines, a folder each. The rest of the package imports none of them; each needs its engine."""
