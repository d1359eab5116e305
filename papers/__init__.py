"""The papers: their claims, tables, figures and analyses, measured by zoo-bench."""
