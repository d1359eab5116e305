"""A method is a Python file, a recipe and its test: in a copy of the tree, the suite's own checks find a new one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# What every method has to pass, beside its own test; the handbook has a page for each.
CHECKS = """tests/zoo/test_card.py tests/zoo/test_registry.py tests/zoo/test_golden.py tests/zoo/test_conformance.py
    tests/zoo/test_saved.py tests/zoo/test_architectures.py tests/zoo/methods/test_capabilities.py
    tests/zoo/methods/test_start.py tests/benchmark/cli/test_methods.py tests/benchmark/cli/test_handbook.py""".split()
WHICH = "my-method or test_card or site_is_built or has_an_untrained_start or by_family"
PASSED = """test_golden.py::test_vectors_are_those_of_this_version[my-method]
    test_conformance.py::test_every_recipe_passes_the_check[my-method-tiny_bert]
    test_saved.py::test_any_encoder_comes_back_from_its_folder_alone[my-method]
    test_architectures.py::test_every_method_passes_or_refuses_with_a_sentence[albert-my-method]
    test_capabilities.py::test_fine_tunes_is_told_by_the_vectors[my-method]
    test_registry.py::test_every_registered_method_loads_and_is_an_encoder[my-method]
    test_handbook.py::test_the_site_is_built_without_a_broken_link
    test_methods.py::test_the_list_is_narrow_and_by_family
    test_start.py::test_every_recipe_that_learns_has_an_untrained_start
    test_card.py::test_a_citation_is_named_by_its_recipe_and_stated_once
    test_card.py::test_every_card_is_found""".split()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the files that `zoo-bench new method` writes, where CONTRIBUTING.md says."""
    tree = tmp_path_factory.mktemp("tree") / "project"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "models", "*.parquet", "site"))
    (tree / "zoo" / "models").symlink_to(ROOT / "zoo" / "models")
    shutil.copy(ROOT / "configs" / "new" / "my_method.py", tree / "zoo" / "methods")
    shutil.copy(ROOT / "configs" / "new" / "my-method.yaml", tree / "configs" / "methods")
    return tree


def python(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy."""
    environment = os.environ | {"PYTHONPATH": str(tree), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


def test_two_files_and_a_test_are_all(copy: Path) -> None:
    """Its golden vectors are missed, printed, and stated in its test; then every check of methods passes with it."""
    missed = python(copy, "-m", "pytest", "-q", "tests/zoo/test_golden.py", "-k", "my-method")
    assert (
        missed.returncode == 1 and "my-method has no golden vectors: python tests/zoo/test_golden.py" in missed.stdout
    )
    printed = python(copy, "tests/zoo/test_golden.py", "my-method")
    assert printed.stdout.startswith("GOLDEN = {'my-method': {'version': 1, "), printed.stderr
    (copy / "tests" / "zoo" / "methods" / "test_my_method.py").write_text(printed.stdout, encoding="utf-8")
    done = python(copy, "-m", "pytest", "-q", "-rA", *CHECKS, "-k", WHICH)
    assert done.returncode == 0, done.stdout[-5000:]
    passed = {line.rpartition("/")[2] for line in done.stdout.splitlines() if line.startswith("PASSED ")}
    assert set(PASSED) <= passed
