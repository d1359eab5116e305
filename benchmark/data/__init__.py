"""The catalog of data sets, where their files are found, and their readers."""
