"""The table beside other libraries: its lines are counted again, and the encoders have the same score."""

from __future__ import annotations

import ast
import io
import re
import runpy
import tokenize
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "from-paper-to-plugin.md").read_text(encoding="utf-8")
BESIDE = ROOT / "examples" / "side-by-side"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(*texts: str) -> int:
    """Count lines without blanks, comments and docstrings."""
    total = 0
    for text in texts:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in LAYOUT]
        code = {row for t in tokens for row in range(t.start[0], t.end[0] + 1)}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                code -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        total += len(code)
    return total


def beside(*names: str) -> list[str]:
    return [(BESIDE / name).read_text(encoding="utf-8") for name in names]


def test_the_lines_of_the_table_are_those_of_the_files() -> None:
    (ours,) = re.findall(r'^```python title="align_uniform.py"\n(.*?)^```$', PAGE, re.M | re.S)
    task = (ROOT / "configs" / "new" / "my_task.py").read_text(encoding="utf-8")
    (yaml,) = beside("lm_task/my_task.yaml")
    of_lm_eval = lines_of_code(*beside("lm_eval_plain.py", "lm_task/my_task_metric.py")) + len(yaml.splitlines())
    method, seeds, plain = (beside(f"sentence_transformers_{part}.py") for part in ("method", "seeds", "plain"))
    rows = [
        f"| zoo-bench | {lines_of_code(ours)} | 0, options of `run` | {lines_of_code(*beside('our_plain.py'), task)} |",
        f"| {lines_of_code(*method)} | {lines_of_code(*seeds)} | {lines_of_code(*plain)} |",
        f"| it trains nothing | | {lines_of_code(*beside('mteb_plain.py'))} |",
        f"| it trains nothing | | {of_lm_eval} |",
    ]
    table = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert [row for row in rows if not any(line.endswith(row) for line in table)] == []


@pytest.mark.slow
def test_the_plain_encoders_have_one_score(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other libraries' as far as they are installed here; lm-eval is not."""
    monkeypatch.chdir(tmp_path)
    assert cli("new", "task", "my-task").code == 0
    plugins = ("--plugin", str(BESIDE / "our_plain.py"), "--plugin", "my_task.py")
    words = "--methods letters --tasks my-task --no-controls --precision fp32 --json".split()
    answer = cli("run", *plugins, *words)
    assert answer.code == 0 and "62.42" in answer.out, answer.err
    theirs: dict[str, Any] = runpy.run_path(str(BESIDE / "sentence_transformers_plain.py"))
    model = theirs["SentenceTransformer"](modules=[theirs["Letters"]()])
    assert f"{100 * theirs['task']()(model)['my-task_spearman_cosine']:.2f}" == "62.42"
    mteb = pytest.importorskip("mteb")
    theirs = runpy.run_path(str(BESIDE / "mteb_plain.py"))
    result = mteb.evaluate(theirs["Letters"](), theirs["MyTask"](), cache=None)
    assert f"{100 * result.task_results[0].get_score():.2f}" == "62.42"
