"""Commands that try to break zoo-bench: `python -m tests.torture --help`."""
