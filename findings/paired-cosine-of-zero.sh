#!/usr/bin/env bash
# Belief: scikit-learn's paired_cosine_distances are the diagonal of its cosine_distances.
# What happens: with a zero vector (a text of unknown words alone) the paired distance is 0.5, that of the matrix 1.
# mteb scores pairs by the paired one: a text without a vector counts as half similar to every other.
# Version: scikit-learn 1.9.1.
# Output: paired [0.5], matrix [1.0]; of two zero vectors: paired [0.0], matrix [1.0]
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check scikit-learn==1.9.1
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import numpy as np
from sklearn.metrics.pairwise import cosine_distances, paired_cosine_distances

zero, vector = np.zeros((1, 4)), np.ones((1, 4))
paired, matrix = paired_cosine_distances(zero, vector), np.diag(cosine_distances(zero, vector))
both = paired_cosine_distances(zero, zero), np.diag(cosine_distances(zero, np.zeros((1, 4))))
print(f"paired {paired.tolist()}, matrix {matrix.tolist()}; of two zero vectors: paired {both[0].tolist()}, matrix {both[1].tolist()}")
assert paired[0] == 0.5 and matrix[0] == 1
PY
