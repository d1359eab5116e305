"""The parts of `--help` beside the options: groups of commands, and two examples of each command."""

from __future__ import annotations

GROUPS = {
    "Measure": ("run", "choose", "adapt", "tune", "reproduce", "search-templates", "pretrain"),
    "Read": ("leaderboard", "compare", "ablation", "others", "claims", "methods", "tasks", "analyze", "cite"),
    "Trust": ("verify", "diff", "data", "doctor"),
    "Extend": ("new", "export", "pack"),
}
"""Commands by what a person wants, the most used first; what another package adds stands in a group of its own."""

EXAMPLES = {
    "run": (
        "zoo-bench run --methods ptbert,simcse",
        "zoo-bench run --methods ./my-model,bag-of-words --suite sts --data FOLDER",
    ),
    "choose": (
        "zoo-bench choose my.csv --encoders sentence-transformers/all-MiniLM-L6-v2,bag-of-words",
        "zoo-bench choose my.csv --encoders A,B --max-ms 20 --floor AUC=85",
    ),
    "adapt": (
        "zoo-bench adapt my-texts.txt --pairs my-pairs.csv",
        "zoo-bench adapt FOLDER --encoder sentence-transformers/all-MiniLM-L6-v2 --methods simcse,tsdae --budget 1h",
    ),
    "tune": (
        "zoo-bench tune simcse --trials 12",
        "zoo-bench tune simcse,ptbert --space learning_rate=1e-5..3e-4:log --minutes 60",
    ),
    "reproduce": ("zoo-bench reproduce --list", "zoo-bench reproduce ptbert-table3 --data FOLDER"),
    "leaderboard": (
        "zoo-bench leaderboard",
        "zoo-bench leaderboard --methods 'simcse*,ptbert' --baseline simcse --out paper",
    ),
    "compare": (
        "zoo-bench compare ptbert simcse",
        "zoo-bench compare ptbert simcse --suite sts --results leaderboards/zoo-small",
    ),
    "ablation": (
        "zoo-bench ablation promptbert-repo --results leaderboards/zoo-small",
        "zoo-bench ablation promptbert-repo --tex ablation.tex --results leaderboards/zoo-small",
    ),
    "others": ("zoo-bench others scores.csv", "zoo-bench others scores.csv A B"),
    "claims": (
        "zoo-bench claims --paper PT-BERT --results leaderboards/zoo-small",
        "zoo-bench claims --beside simcse --plot beats.png --results leaderboards/zoo-small",
    ),
    "methods": ("zoo-bench methods 'simcse*'", "zoo-bench methods ptbert --show"),
    "tasks": ("zoo-bench tasks", "zoo-bench tasks STS12 --show"),
    "cite": ("zoo-bench cite", "zoo-bench cite --suite sts --results leaderboards/zoo-small"),
    "verify": (
        "zoo-bench verify zoo-bench-results",
        "zoo-bench verify FOLDER --data DATA --allow-unverified",
    ),
    "diff": ("zoo-bench diff BEFORE AFTER", "zoo-bench diff BEFORE AFTER --fail-if-worse"),
    "doctor": ("zoo-bench doctor", "zoo-bench doctor my-method --plugin my_method.py"),
    "export": ("zoo-bench export simcse FOLDER", "zoo-bench export '*' FOLDER --scores"),
    "analyze": ("zoo-bench analyze anisotropy --methods cls,simcse",),
    "search-templates": ("zoo-bench search-templates --limit-pairs 300 --keep 3",),
    "new": ("zoo-bench new method my-method", "zoo-bench new method my-loss --loss"),
    "data": ("zoo-bench data list", "zoo-bench data verify --data FOLDER"),
    "pack": ("zoo-bench pack",),
}
