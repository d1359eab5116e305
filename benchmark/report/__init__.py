"""Makes tables and pages from records. Nothing is measured here, and torch is not imported."""
