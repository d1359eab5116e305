"""The choice of an encoder for a user's own texts."""
