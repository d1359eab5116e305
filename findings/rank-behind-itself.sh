#!/usr/bin/env bash
# Belief: the nearest neighbour of a query has rank 1, when a rank counts the rows whose product with the query is larger.
# What happens: numpy's product of two rows and its product of all rows with a vector round the same pair differently.
# So a partner stands behind itself for a quarter to a third of the queries, in float64 too.
# EvalRank's released code ranks so: on its own 6,989 pairs with the mean of a small BERT's last layer (a Zen 3) it has
# Hits@1 44.7 and MRR 59.9, where the same vectors have 57.8 and 67.1. A score that is taken out of the one product has rank 1.
# Version: numpy 2.4.6 (OpenBLAS; the share depends on the processor).
# Output (a Zen 3): behind itself: float32 26.1 %, float64 35.6 % of 1,000 queries; taken out of the product: 0 %
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check numpy==2.4.6
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import numpy as np

generator = np.random.default_rng(0)
queries = generator.normal(size=(1000, 384))
partners = queries + 0.3 * generator.normal(size=queries.shape)
others = generator.normal(size=(4000, 384))
shares, within = [], 0
for kind in (np.float32, np.float64):
    rows = np.concatenate([queries, partners, others]).astype(kind)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    behind = 0
    for number in range(1000):
        query, partner = rows[[number]], rows[[1000 + number]]
        of_all = np.dot(rows, query.T)[:, 0]
        # The query itself is among the rows and nearer than all, so that a first partner has one row before it.
        behind += np.count_nonzero(of_all > np.dot(query, partner.T)[0, 0]) > 1
        within += np.count_nonzero(of_all > of_all[1000 + number]) > 1
    shares.append(behind / 10)
print(f"behind itself: float32 {shares[0]} %, float64 {shares[1]} % of 1,000 queries; taken out of the product: {within} %")
assert min(shares) > 5 and within == 0
PY
