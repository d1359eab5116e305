"""Pretraining of small language models by `transformers.Trainer`, from plain text without test sentences."""
