"""Measures speed, where possible beside the library that a user would use otherwise, both in one run."""
