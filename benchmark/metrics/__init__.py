"""Measures of vectors."""

VERSIONS = {"correlation": 1, "finetuning": 1, "items": 1, "probe": 1, "relatedness": 1}
"""Raised by hand when a metric gives the same vectors another score; the cells of its tasks are then measured again."""
