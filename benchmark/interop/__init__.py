"""Interfaces of other projects: sentence-transformers folders, MTEB's results and models, SentEval."""
