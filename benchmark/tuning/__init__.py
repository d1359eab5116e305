"""Tuning: the space of a trial, the trials' files, and studies of them."""
