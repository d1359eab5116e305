#!/usr/bin/env bash
# Belief: class_encode_column on a column of whole numbers keeps their order, so that a grade stays the larger class.
# What happens: numbers become text before they are sorted: 10 stands before 2, and -1 (no label) is the class 0.
# Version: datasets 5.2.0.
# Output: names ['-1', '0', '1', '10', '2']; the grades [0, 1, 2, 10, -1] become [1, 2, 4, 3, 0]
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check datasets==5.2.0
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import datasets

datasets.disable_progress_bars()
grades = [0, 1, 2, 10, -1]
encoded = datasets.Dataset.from_dict({"grade": grades}).class_encode_column("grade")
names, classes = encoded.features["grade"].names, list(encoded["grade"])
print(f"names {names}; the grades {grades} become {classes}")
assert classes[3] < classes[2] and names[classes[4]] == "-1"
PY
