"""Computes scores from vectors, in float64; a score that is not defined is returned as NaN or None."""
