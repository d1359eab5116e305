"""Semantic roles of sentences, for PT-BERT's "SRL" augmentation (section 4.4)."""
