"""The papers, measured by zoo-bench: claims, tables, figures, analyses, template search and pretraining."""
