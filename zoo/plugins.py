"""Registries of names and classes, loaded at first use and open to plugins; a broken plugin affects nothing else."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from zoo.errors import UsageError, did_you_mean, error_text
from zoo.identity import code_sha256

if TYPE_CHECKING:
    from zoo.encoder import Encoder


T = TypeVar("T")
C = TypeVar("C", bound=type)


FAMILIES = {
    "controls": "what every method is measured against",
    "pooling": "a backbone's states pooled, nothing is trained",
    "words": "static token embeddings and word vectors, averaged",
    "transforms": "a linear map or a flow fitted on vectors",
    "prompts": "a template and its [MASK] state",
    "contrastive": "trained by contrast of sentences (simcse-sup: with labels)",
    "siamese": "trained on labelled pairs",
    "finished": "encoders and vectors made elsewhere, measured as they are",
    "plugins": "methods of plugins",
}
"""The families of methods in the order of lists, each with its description."""


@dataclass(frozen=True)
class MethodCard:
    """Facts of a method before it is loaded; `page` is a handbook page, docs/methods/PAGE.md, or ""."""

    family: str = "plugins"
    paper: str = ""
    page: str = ""


UNSTATED = MethodCard()


@dataclass(frozen=True)
class Registered:
    target: object
    origin: str
    card: MethodCard = UNSTATED
    # The plugin file that registered it.
    file: str = ""


def _place(obj: type) -> str:
    try:
        return f"{inspect.getsourcefile(obj)}:{inspect.getsourcelines(obj)[1]}"
    except (TypeError, OSError):
        return f"{getattr(obj, '__module__', '?')}:{getattr(obj, '__qualname__', obj)}"


class Registry(Generic[T]):
    """Names of a base class's subclasses, from this project, entry points and plugin files; `get` gives a T."""

    def __init__(self, kind: str, *, base: str, group: str, builtin: Callable[[], Mapping[str, Registered]]) -> None:
        """`base` is "module:attribute", `group` the entry-point group; `builtin` is called at the first use."""
        self.kind = kind
        self.group = group
        self._base = base
        self._read_builtin = builtin
        self._entries: dict[str, Registered] = {}
        self._builtin: frozenset[str] = frozenset()
        self._broken: dict[str, str] = {}
        self._scanned = False
        self._lock = threading.RLock()

    def register(self, name: str, *, origin: str | None = None, card: MethodCard = UNSTATED) -> Callable[[C], C]:
        """Class decorator; raises UsageError on a clash, naming both places."""

        def add(cls: C) -> C:
            self._scan()
            if self.name_of(cls) != name:
                self._add(name, Registered(cls, origin or _place(cls), card))
            return cls

        return add

    def spelling(self, name: str) -> str:
        """Return what names have in common that a command line takes for one."""
        return name.casefold()

    def _check_name(self, name: object, origin: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith((".yaml", ".yml", ".py")):
            raise UsageError(
                f"{self.kind} {name!r:.80} from {origin}: a name has letters, digits and - _ . + alone, begins with a"
                " letter or a digit, and has no ending of a file. Rename it."
            )
        for other, entry in self._entries.items():
            if other != name and self.spelling(other) == self.spelling(name):
                raise UsageError(
                    f"{self.kind} {name!r} from {origin}: {other!r} of {entry.origin} is another spelling of this name."
                    " Rename one."
                )

    def _add(self, name: str, entry: Registered) -> None:
        with self._lock:
            self._check_name(name, entry.origin)
            known = self._entries.get(name)
            if known is not None and _target(known.target) == _target(entry.target):
                # The module of an entry point may register the same class by decorator as well.
                return
            if known is not None and known.target is not entry.target and known.origin != entry.origin:
                raise UsageError(
                    f"{self.kind} {name!r} is defined twice: in {known.origin} and in {entry.origin}. Rename one."
                )
            self._entries[name] = entry

    def _scan(self) -> None:
        # Its import takes longer than that of the rest of a command's help.
        from importlib.metadata import entry_points

        with self._lock:
            if self._scanned:
                return
            builtin = self._read_builtin()
            self._entries, self._builtin = {**builtin, **self._entries}, frozenset(builtin)
            for point in entry_points(group=self.group):
                package = point.dist.name if point.dist else "?"
                # An installed package harms itself alone: the name stays with what had it.
                try:
                    _find(point.module)
                    self._add(point.name, Registered(point.value, f"{point.value} (package {package})"))
                except UsageError as error:
                    self._broken[f"{point.name} of {package}"] = str(error)
            self._scanned = True

    def names(self) -> list[str]:
        self._scan()
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        self._scan()
        return name in self._entries

    def origin(self, name: str) -> str:
        self._scan()
        return self._entries[name].origin

    def name_of(self, cls: type[Any]) -> str | None:
        self._scan()
        names = (name for name, entry in self._entries.items() if _target(entry.target) == _target(cls))
        return next(names, None)

    def files(self) -> list[str]:
        """Return the plugin files of what is registered, in the order of their loading."""
        return list(dict.fromkeys(entry.file for entry in self._entries.values() if entry.file))

    def is_builtin(self, name: str) -> bool:
        self._scan()
        return name in self._builtin

    def card(self, name: str) -> MethodCard:
        self._scan()
        return self._entries[name].card if name in self._entries else UNSTATED

    def summary(self, name: str) -> str:
        """First line of the class's docstring; the place of definition for a plugin not loaded yet."""
        self._scan()
        entry = self._entries[name]
        doc = "" if isinstance(entry.target, str) else (entry.target.__doc__ or "").strip()
        return doc.splitlines()[0] if doc else f"plugin ({entry.origin})"

    def broken(self) -> dict[str, str]:
        self._scan()
        return dict(self._broken)

    def broken_note(self, name: str) -> str:
        """Return why an installed plugin's name is unknown, and which files are broken."""
        keys = [key for key in self._broken if key.partition(" of ")[0] == name or key.endswith(".py")]
        return "".join(f" It is broken: {key}: {self._broken[key]}" for key in keys)

    def get(self, name: str) -> T:
        """Load what is registered; raises UsageError for an unknown or broken name."""
        self._scan()
        entry = self._entries.get(name)
        if entry is None:
            hint = self.broken_note(name) or did_you_mean(name, self._entries)
            raise UsageError(f"unknown {self.kind} {name!r}.{hint}")
        if name in self._broken:
            raise UsageError(f"{self.kind} {name!r} is broken: {self._broken[name]}")
        try:
            target = _load(entry.target) if isinstance(entry.target, str) else entry.target
            registered = self.made_of(target, _load(self._base), entry.origin)
        except Exception as error:
            # Whatever a plugin raises is reported as its fault.
            self._broken[name] = f"{error_text(error)} ({_raised_in(error)})"
            raise UsageError(f"{self.kind} {name!r} is broken: {self._broken[name]}") from error
        self._entries[name] = replace(entry, target=target)
        return registered

    def made_of(self, target: object, base: type[Any], origin: str) -> T:
        if not (isinstance(target, type) and issubclass(target, base)):
            raise TypeError(f"{origin} is not a subclass of {self._base.replace(':', '.')}")
        return cast("T", target)

    def load_all(self) -> Iterator[tuple[str, T | None]]:
        for name in self.names():
            try:
                yield name, self.get(name)
            except UsageError:
                yield name, None

    @contextmanager
    def loading(self, file: Path) -> Iterator[None]:
        """Note the file at what the block registers; after an error nothing of it is left."""
        self._scan()
        before, ended = dict(self._entries), False
        try:
            yield
            ended = True
        finally:
            new = {name: replace(entry, file=str(file)) for name, entry in self._entries.items() if name not in before}
            self._entries = {**self._entries, **new} if ended else before

    def leave_out(self, name: str, reason: str) -> bool:
        """Take an entry point's name out again; False for what a file or a caller registered."""
        entry = self._entries[name]
        if name in self._builtin or "(package " not in entry.origin:
            return False
        del self._entries[name]
        self._broken[f"{name} of {entry.origin.partition('(package ')[2].rstrip(')')}"] = reason
        return True

    def mark_broken(self, name: str, reason: str) -> None:
        self._broken[name] = reason


_NAME = re.compile(r"[^\W_][\w.+-]*")


def _target(target: object) -> object:
    return f"{target.__module__}:{target.__qualname__}" if isinstance(target, type) else target


def _find(module: str) -> None:
    """Raise UsageError where a module's package is not installed; imports nothing."""
    package = module.partition(".")[0]
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise UsageError(f"there is no module {package!r}. Install its package again, or uninstall it.")


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _raised_in(error: BaseException, file: str | None = None) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in frames if frame.filename == file] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "no traceback"


def _builtin_methods() -> dict[str, Registered]:
    return {
        name: Registered(f"zoo.methods.{target}", f"zoo.methods.{target.partition(':')[0]}", MethodCard(*stated))
        for name, (target, *stated) in _load("zoo.methods:TABLE").items()
    }


METHODS: Registry[type[Encoder]] = Registry(
    "method", base="zoo.encoder:Encoder", group="zoo_bench.methods", builtin=_builtin_methods
)


def register_method(name: str, *, family: str = "plugins", paper: str = "", page: str = "") -> Callable[[C], C]:
    """Class decorator: register an Encoder subclass as a method; without a recipe file it is a recipe of its own name.

    Args:
        name: The method's name in --methods.
        family: The group under which `zoo-bench methods` lists it.
        paper: The name of its paper in papers.yaml.
        page: The name of its page in the handbook.

    Returns:
        The decorator, which returns the class as it is.

    Raises:
        UsageError: The name is taken, or the family is unknown.

    Examples:
        >>> from collections.abc import Sequence
        >>> from dataclasses import dataclass
        >>> from typing import Any
        >>> import numpy as np
        >>> from zoo import Encoder, Runtime
        >>> @dataclass(frozen=True)
        ... class LettersRecipe:
        ...     letters: str = "etaoin"
        >>> @register_method("letters-of-a-docstring")
        ... class Letters(Encoder[LettersRecipe]):
        ...     Recipe = LettersRecipe
        ...     def __init__(self, recipe: LettersRecipe, runtime: Runtime) -> None:
        ...         super().__init__(recipe, runtime)
        ...         self.dim = len(recipe.letters)
        ...     def encode(self, texts: Sequence[str], *_: Any, **options: Any) -> np.ndarray:
        ...         rows = [[text.count(letter) for letter in self.recipe.letters] for text in texts]
        ...         return np.array(rows, np.float32)
        >>> Letters(LettersRecipe(), Runtime()).encode(["a note"]).tolist()
        [[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]]
    """
    if family not in FAMILIES:
        raise UsageError(
            f"method {name!r}: unknown family {family!r}.{did_you_mean(family, FAMILIES)} Known: {', '.join(FAMILIES)}."
        )
    return METHODS.register(name, card=MethodCard(family=family, paper=paper, page=page))


def load_plugin_file(path: Path, registries: list[Registry[Any]]) -> str | None:
    """Run a plugin file; return None or the reason of failure. A name clash raises UsageError."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"plugin file {path} {what}; give the path of a Python file.")
    # Two files may have the same name, so the module name contains a hash of the path.
    module_name = f"zoo_bench_plugin_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"plugin file {path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with ExitStack() as stack:
            for registry in registries:
                stack.enter_context(registry.loading(path))
            spec.loader.exec_module(module)
    except UsageError:
        del sys.modules[module_name]
        raise
    except Exception as error:
        # A broken plugin is listed as broken and affects nothing else.
        del sys.modules[module_name]
        reason = f"{error_text(error)} ({_raised_in(error, spec.origin)})"
        for registry in registries:
            registry.mark_broken(str(path), reason)
        return reason
    return None


def method_identity(cls: type[Encoder], *, file: bool = True, version: int | None = None) -> str:
    """Registered name and version (None: of the class here) for keys; with `file` the sha256 of a plugin's code too."""
    name, version = METHODS.name_of(cls), cls.version if version is None else version
    # A class of this project that is no method stands for an object, whose vectors are in its key.
    code = code_sha256(cls) if file and not (name and METHODS.is_builtin(name)) else ""
    return f"{name or 'object'}, version {version}" + (f":{code}" if code else "")
