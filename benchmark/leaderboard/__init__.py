"""Records to tables. Nothing is measured here, and no torch is imported."""
