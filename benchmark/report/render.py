"""The templates of tables and of the page."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


def fill(template: str, **values: object) -> str:
    """HTML escapes every value; the other templates have << >> around values."""
    return _environment(".html" in template).get_template(template).render(**values)


@functools.cache
def _environment(html: bool) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    start, end = ("{{", "}}") if html else ("<<", ">>")  # braces have another meaning in LaTeX
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=not html,
        variable_start_string=start,
        variable_end_string=end,
        comment_start_string="<#",
        comment_end_string="#>",
    )
    # `tojson` writes < > & ' as \u escapes, so that no text can close the script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment
