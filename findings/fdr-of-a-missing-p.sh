#!/usr/bin/env bash
# Belief: a missing p-value (NaN) in multipletests stays missing, and the others are corrected.
# What happens: Holm's and Bonferroni's do so; of fdr_bh every corrected p-value is NaN, while the same answer still
# says which hypotheses are rejected.
# Version: statsmodels 0.15.0.
# Output: holm [0.004, 0.03, nan, 1.0]; fdr_bh [nan, nan, nan, nan], rejected [True, True, False, False]
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check statsmodels==0.15.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import math
import warnings

warnings.simplefilter("ignore")
from statsmodels.stats.multitest import multipletests

values = [0.001, 0.01, math.nan, 0.9]
_, holm, *_ = multipletests(values, method="holm")
rejected, corrected, *_ = multipletests(values, method="fdr_bh")
print(f"holm {holm.round(6).tolist()}; fdr_bh {corrected.tolist()}, rejected {rejected.tolist()}")
assert not math.isnan(holm[0]) and all(map(math.isnan, corrected)) and rejected[:2].all()
PY
