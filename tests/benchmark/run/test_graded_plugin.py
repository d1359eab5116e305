"""The handbook's plugin of scored pairs is checked, stopped, resumed, verified, exported, tuned and extended."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli

from zoo.plugins import METHODS

DOCS = Path(__file__).resolve().parents[3] / "docs"
# Stops its process once, in the second batch of a training.
STOP = """
        if STOP.exists() and (text := STOP.read_text() + "."):
            STOP.write_text(text)
            if len(text) == 2:
                STOP.unlink()
                os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
def test_the_handbooks_plugin_of_scored_pairs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to" / "add-a-method.md").read_text(encoding="utf-8")
    (code,) = re.findall(r'^```python title="pcc.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    head = "import os\nimport signal\nfrom pathlib import Path\n\nSTOP = Path('stop')\n"
    body = code.replace("        cosines = F.cosine", f"{STOP}        cosines = F.cosine")
    Path("pcc.py").write_text(head + body, encoding="utf-8")
    draw = np.random.default_rng(0)
    pairs = [(a, b) for a in "fox owl cat dog".split() for b in "hen fox cow".split()]
    rows = [f"The {a} is near the lamp.,A {b} is near a lamp.,{draw.integers(6)}" for a, b in pairs]
    Path("pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]), encoding="utf-8")
    Path("wide.yaml").write_text("extends: pcc\nparameters: {batch_size: 6, epochs: 2}\n", encoding="utf-8")
    plugin, results = ("--plugin", "pcc.py"), ("--results", "out")
    assert cli("doctor", "pcc", *plugin).code == 0
    words = (
        "--methods wide.yaml --pairs pairs.csv --tasks pocket-words --precision fp32 --seeds 1 --no-controls".split()
    )
    assert cli("run", *plugin, *words, "--results", "straight").code == 0
    Path("stop").write_text("", encoding="utf-8")
    assert cli("run", *plugin, *words, *results).code == 143 and not Path("stop").exists()
    resumed = cli("run", *plugin, *words, *results)
    assert resumed.code == 0, resumed.err
    scores = [
        {json.loads(path.read_text())["scores"]["main"] for path in Path(folder).glob("records/wide*/*.json")}
        for folder in ("straight", "out")
    ]
    assert scores[0] == scores[1] and len(scores[0]) == 1
    verified = cli("verify", "out", *plugin)
    assert verified.code == 0, verified.out
    for name, named in (("exported", plugin), ("lacking", ())):
        if not named:
            monkeypatch.delitem(METHODS._entries, "pcc")
        exported = cli("export", "wide.yaml", name, *results, *named)
        assert (exported.code == 0) == bool(named), exported.err
    assert "Its run had --plugin pcc.py." in exported.err and "batch_size: 6" in Path("exported/README.md").read_text()
    words = "pcc --pairs pairs.csv --trials 2 --dev pocket-pairs --space batch_size=[4,6] --space epochs=[1]".split()
    tuned = cli("tune", *words, *plugin, *results)
    assert tuned.code == 0 and Path("out/tuned/pcc-tuned.yaml").is_file(), tuned.err
