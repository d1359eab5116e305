"""Names to classes: built-in, entry points, plugin files; what breaks stays broken alone."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from zoo.encoder import Encoder
from zoo.errors import UsageError
from zoo.methods.pooled import Cls
from zoo.plugins import METHODS, Registered, Registry, load_plugin_file
from zoo.recipes import all_recipes

GROUP = "zoo_bench.tests"


@pytest.fixture
def registry() -> Registry[type[Encoder]]:
    return Registry(
        "method",
        base="zoo.encoder:Encoder",
        group=GROUP,
        builtin=lambda: {
            "cls": Registered("zoo.methods.pooled:Cls", "zoo.methods.pooled"),
            "simcse": Registered("zoo.methods.simcse:SimCSE", "zoo.methods.simcse"),
        },
    )


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points as installed packages would declare them: name -> value."""
    declared: dict[str, str] = {}
    original = importlib.metadata.entry_points

    def fake(**wanted: Any) -> Any:
        if wanted.get("group") == GROUP:
            return [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in declared.items()]
        return original(**wanted)

    monkeypatch.setattr(importlib.metadata, "entry_points", fake)
    return declared


PLUGIN = """
import numpy as np
from zoo.encoder import Encoder

class {cls}(Encoder):
    "Says nothing."
    Recipe = dict
    dim = 1
    def encode(self, texts): return np.zeros((len(texts), 1), np.float32)
    def save(self, folder): pass
    @classmethod
    def load(cls, folder, runtime=None): return cls({{}}, runtime)
    def fingerprint(self): return "x"
"""


def test_a_name_loads_its_class(registry: Registry[type[Encoder]]) -> None:
    assert registry.get("cls") is Cls
    assert registry.names() == ["cls", "simcse"]
    assert "cls" in registry and "clx" not in registry


def test_a_clash_names_both_places(registry: Registry[type[Encoder]]) -> None:
    with pytest.raises(UsageError) as caught:

        @registry.register("cls")
        class Other(Cls):
            pass

    assert "'cls' is defined twice" in str(caught.value)
    assert "zoo.methods.pooled" in str(caught.value)
    assert __file__ in str(caught.value)
    assert registry.get("cls") is Cls


def test_a_broken_entry_point_is_listed_and_harms_no_other(
    registry: Registry[type[Encoder]], entry_points: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_plugin_module.py").write_text("x = 1\nraise RuntimeError('no luck')\n", encoding="utf-8")
    (tmp_path / "good_plugin_module.py").write_text(PLUGIN.format(cls="Good"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points |= {
        "absent": "no_such_module_at_all:Thing",
        "good": "good_plugin_module:Good",
        "raising": "raising_plugin_module:Thing",
        "wrong": "collections:OrderedDict",
    }
    assert registry.names() == ["cls", "good", "raising", "simcse", "wrong"]
    with pytest.raises(UsageError, match=r"It is broken: absent of \?: there is no module 'no_such_module_at_all'"):
        registry.get("absent")
    assert "raising_plugin_module" not in sys.modules  # listing loads nothing
    loaded = dict(registry.load_all())
    assert {name for name, cls in loaded.items() if cls is None} == {"raising", "wrong"}
    assert loaded["good"].__name__ == "Good" and loaded["cls"] is Cls
    broken = registry.broken()
    assert {*broken} == {"absent of ?", "raising", "wrong"}
    assert "no luck" in broken["raising"] and "raising_plugin_module.py:2" in broken["raising"]
    assert "TypeError" in broken["wrong"]


def test_an_entry_point_with_a_built_in_name_is_broken_alone(
    registry: Registry[type[Encoder]], entry_points: dict[str, str]
) -> None:
    """The name stays with the built-in method, and other packages are read."""
    entry_points |= {"cls": "zoo.elsewhere:Cls", "zz": "zoo.methods.static:Static"}
    for _ in range(2):
        assert registry.names() == ["cls", "simcse", "zz"] and registry.get("cls") is Cls
        (reason,) = registry.broken().values()
        assert "zoo.methods.pooled" in reason and "zoo.elsewhere:Cls" in reason


def test_an_entry_point_with_a_recipe_s_name_is_broken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Registered("elsewhere:Cls", "elsewhere:Cls (package elsewhere)")
    monkeypatch.setattr(METHODS, "_entries", {**METHODS._entries, "avg-last": entry})
    monkeypatch.setattr(METHODS, "_broken", {})
    assert all_recipes()["avg-last"].method == "avg"
    assert "avg-last.yaml" in METHODS.broken()["avg-last of elsewhere"]


def test_a_class_of_decorator_and_entry_point_is_one(
    registry: Registry[type[Encoder]], entry_points: dict[str, str]
) -> None:
    entry_points["static"] = "zoo.methods.static:Static"
    from zoo.methods.static import Static

    assert registry.names() == ["cls", "simcse", "static"]
    registry.register("static")(Static)
    assert registry.get("static") is Static


def test_a_plugin_that_raises_is_rolled_back_and_listed(tmp_path: Path) -> None:
    plugin = tmp_path / "half.py"
    code = "from zoo import register_method\nfrom zoo.methods.pooled import Cls\n"
    code += "@register_method('half-registered')\nclass Half(Cls):\n    pass\n\nraise ValueError('second thoughts')\n"
    plugin.write_text(code, encoding="utf-8")
    try:
        reason = load_plugin_file(plugin, [METHODS])
        assert reason is not None and "second thoughts" in reason and f"{plugin}:7" in reason
        assert "half-registered" not in METHODS.names()
        assert METHODS.broken()[str(plugin)] == reason
        with pytest.raises(UsageError, match="second thoughts"):
            METHODS.get("half-registered")
        assert METHODS.get("cls") is Cls
    finally:
        METHODS._broken.pop(str(plugin), None)


def test_a_plugin_file_registers_a_method_that_loads(tmp_path: Path) -> None:
    plugin = tmp_path / "fine.py"
    plugin.write_text(
        PLUGIN.format(cls="Fine") + "from zoo import register_method\nregister_method('fine-plugin')(Fine)\n",
        encoding="utf-8",
    )
    with pytest.raises(RuntimeError, match="undo"), METHODS.loading(Path("plugin.py")):
        assert load_plugin_file(plugin, [METHODS]) is None
        assert METHODS.get("fine-plugin").__name__ == "Fine"
        assert str(plugin) in METHODS.origin("fine-plugin")
        assert METHODS.summary("fine-plugin") == "Says nothing."
        raise RuntimeError("undo")
    assert "fine-plugin" not in METHODS.names()


@pytest.mark.parametrize("name", ["absent.py", "plugin.txt"])
def test_a_plugin_file_that_is_none_is_a_usage_error(
    registry: Registry[type[Encoder]], tmp_path: Path, name: str
) -> None:
    (tmp_path / "plugin.txt").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match=name):
        load_plugin_file(tmp_path / name, [registry])
