"""Tuning: what a trial may change, the trials' files, and studies of them."""
