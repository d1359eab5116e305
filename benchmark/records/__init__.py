"""Records of what was measured: all reading and writing of a results folder goes through this package."""
