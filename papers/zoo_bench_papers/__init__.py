"""The papers, measured by zoo-bench: their claims, tables, figures, analyses, template search and pretraining."""
