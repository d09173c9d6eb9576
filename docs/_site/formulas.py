"""Formulas as MathML: browsers draw it themselves, so that the site works offline."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

# What docutils knows under another name, or reads in another way than LaTeX does.
SPELLINGS = (
    (r"\\([bB]ig)(?![a-zA-Z])", r"\\\1l"),
    (r"\\dots(?![a-z])", r"\\ldots"),
    (r"\\([td]?frac)\s*(\d)", r"\\\1{\2}"),  # it takes all digits that follow for one number
    (r"(\\[td]?frac\{\d\})(\d)", r"\1{\2}"),
    # It sets the index of a letter with an accent below it, unless something stands between.
    (r"\\(hat|bar|tilde)\s*(\\[a-zA-Z]+|[a-zA-Z])(?=[_^])", r"{\\\1{\2}{}}"),
)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = node.astext()
    for pattern, spelling in SPELLINGS:
        tex = re.sub(pattern, spelling, tex)
    try:
        return str(tex2mathml(tex, as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("%s in the formula %r", error, tex, location=node)
        return ""
