"""Is it different? Resamples, standard errors, sets of the best, and the comparison of two rows."""
