"""Measurements of speed against the peers a user would pick, both in one run."""
