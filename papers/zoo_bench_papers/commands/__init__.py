"""Commands that this package adds to `zoo-bench`."""
