"""Makes and executes a plan: obtains each encoder, measures it and writes the records."""
