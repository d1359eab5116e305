"""Records of measurements: the only reader and writer of a results folder."""
