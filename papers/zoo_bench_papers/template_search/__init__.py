"""Searches a prompt's template by its score on development pairs."""
