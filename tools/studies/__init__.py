"""Studies of how often the statistics err, by simulation; the docs quote what they print."""
