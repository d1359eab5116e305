"""Readers of the data sets' files, one file per kind of data."""
