"""Texts to tokens to states to vectors: the encoding engine."""
