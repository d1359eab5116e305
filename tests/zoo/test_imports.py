"""What importing costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import zoo


def heavy_modules_after(code: str) -> str:
    program = f"import sys\n{code}\nprint(sorted({{'torch', 'transformers', 'sklearn'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import zoo, zoo.encoder, zoo.plugins, zoo.recipes, zoo.errors, zoo.files, zoo.progress, zoo.machine",
        "from zoo.plugins import METHODS; assert 'simcse' in METHODS.names(); METHODS.origin('ptbert')",
        "from zoo.recipes import all_recipes as every; from zoo.selection import parse_methods\n"
        "assert parse_methods('static-*', every())",
    ],
    ids=["import", "listing methods", "choosing recipes"],
)
def test_no_torch_is_imported_for(code: str) -> None:
    assert heavy_modules_after(code) == "[]"


def test_the_probe_of_heavy_imports_sees_torch_where_it_is() -> None:
    assert "torch" in heavy_modules_after("from zoo.plugins import METHODS; METHODS.get('cls')")


def test_a_method_loads_neither_transformers_nor_scikit_learn() -> None:
    """With vectors in the embedding cache no weights are read, and start-up is most of what a run takes."""
    assert heavy_modules_after("from zoo.plugins import METHODS; METHODS.get('avg')") == "['torch']"


def test_lazy_names_of_the_package_are_the_objects_themselves() -> None:
    from zoo.encoder import Encoder

    assert zoo.Encoder is Encoder
    assert all(hasattr(zoo, name) for name in zoo.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = zoo.nothing_of_the_kind
