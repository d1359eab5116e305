"""Tables and pages from records. Nothing is measured here; imports no torch."""
