"""The command line: a file per command, to parse options and print results."""
