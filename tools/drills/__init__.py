"""Commands that try to break zoo-bench: `python -m tools.drills --help`."""
