"""Pretraining backbones: text without any sentence that a task tests, tables of trials, word vectors."""
