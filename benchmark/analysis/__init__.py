"""Analyses of encoders, token embeddings and scored pairs, for any backbone and method: `zoo-bench analyze`."""
