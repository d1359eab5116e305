"""The catalog of data sets, the places of their files, and their readers."""
