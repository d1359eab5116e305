"""Readers of the data sets' files, by kind of data."""
