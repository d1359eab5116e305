"""Pretraining of backbones and word vectors: training texts without test sentences, and tables of trials."""
