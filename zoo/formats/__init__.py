"""Files of other projects: sentence-transformers folders, word vectors."""
