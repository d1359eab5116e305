"""Packages of the extras, which fail under their own name."""

from __future__ import annotations

import importlib
from typing import Any

from zoo.errors import MissingError, error_text


def optional(package: str, extra: str, what: str) -> Any:
    """Import a package of an extra.

    Args:
        package: Its name in Python.
        extra: The extra that installs it.
        what: What needs it, as the user typed it.

    Returns:
        The module.

    Raises:
        MissingError: It is not installed, or installed and cannot be loaded.

    Examples:
        >>> optional("json", "tune", "--trials").__name__
        'json'
        >>> optional("no_such_package", "tune", "--trials")
        Traceback (most recent call last):
        zoo.errors.MissingError: --trials needs no_such_package, which is not installed: pip install 'zoo-bench[tune]'
    """
    try:
        return importlib.import_module(package)
    except Exception as error:
        # The boundary to optional packages: what one of them raises while it is imported is not its user's fault.
        name = package.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise MissingError(
                f"{what} needs {name}, which is not installed: pip install 'zoo-bench[{extra}]'"
            ) from error
        reason = error_text(error).rstrip(".")
        raise MissingError(f"{what} needs {name}, which cannot be loaded ({reason}): pip install -U {name}") from error
