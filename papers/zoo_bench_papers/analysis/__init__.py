"""Analyses of encoders, token embeddings and scored pairs."""
