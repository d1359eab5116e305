"""Masked-language-model pretraining of small backbones from plain text."""
