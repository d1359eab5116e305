"""Chooses an encoder for a user's own texts."""
