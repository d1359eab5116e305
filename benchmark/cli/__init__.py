"""The command line: one file per command; it parses and prints, and decides nothing."""
