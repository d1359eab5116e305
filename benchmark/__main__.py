"""`python -m benchmark`: zoo-bench where a launcher wants a module."""

from benchmark.cli.main import main

main()
