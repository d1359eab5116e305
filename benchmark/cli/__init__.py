"""The command line: one file per command, which only parses options and prints results."""
