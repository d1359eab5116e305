#!/usr/bin/env bash
# Belief: two evaluators give the same nDCG@10 for the same scores, and the names of documents do not matter.
# What happens: with tied scores pytrec_eval ranks by the document's name, the last in the alphabet first, and
# scikit-learn takes the mean over the orders of the tied documents: 0.5, 1.0 and 0.71 for one ranking.
# Versions: pytrec_eval-terrier 0.5.11, scikit-learn 1.9.1.
# Output: the relevant document is called a: 0.5000, is called z: 1.0000, scikit-learn: 0.7103
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check pytrec_eval-terrier==0.5.11 scikit-learn==1.9.1
cd "$dir"
"$dir/venv/bin/python" - <<'PY'
import pytrec_eval
from sklearn.metrics import ndcg_score


def by_name(name):
    grades = {name: 1, "m": 0, "n": 0}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut.10"})
    return evaluator.evaluate({"q": dict.fromkeys(grades, 1.0)})["q"]["ndcg_cut_10"]


first, last, mean = by_name("a"), by_name("z"), ndcg_score([[1, 0, 0]], [[1, 1, 1]], k=10)
print(f"the relevant document is called a: {first:.4f}, is called z: {last:.4f}, scikit-learn: {mean:.4f}")
assert (first, last) == (0.5, 1.0) and 0.70 < mean < 0.72
PY
