"""Records of what was measured: the one door to a results folder."""
