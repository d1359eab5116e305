"""`zoo-bench` and `python -m benchmark`: the command, also for launchers of modules."""

import os
import sys


def main() -> None:
    """Run the command line; Ctrl-C is a single sentence even during imports."""
    # Threads of torch that wait for work leave the processor to others; OpenMP reads this when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # What Apple's GPU lacks is computed by the CPU, and torch names each such operation; read at the same time.
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    try:
        from benchmark.cli.main import main as command
    except KeyboardInterrupt:
        print("zoo-bench: interrupted before anything was done.", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
