"""Ten steps of a released code, run from our weights on our batches: `start` writes these, `release` runs it."""
