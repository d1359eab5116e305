"""`python -m benchmark`: the command zoo-bench for launchers that need a module."""

from benchmark.cli.main import main

main()
