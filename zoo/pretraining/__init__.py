"""Pretraining of small language models from plain text by `transformers.Trainer`."""
