"""Makers of the data that the packages ship, and their scores; not installed."""
