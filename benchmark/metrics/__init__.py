"""Scores from vectors: always in float64, never hiding a NaN."""
