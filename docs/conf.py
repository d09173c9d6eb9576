"""The site: ``make docs`` writes it to ``docs/_build/html``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import drfl

sys.path.insert(0, str(Path(__file__).parent / "_site"))

# A group of pages may be empty; Sphinx gives this warning no type by which to suppress it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: "glob pattern" not in str(record.msg)
)

project = "drfl"
author = "The drfl developers"
release = drfl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "formulas",
]
exclude_patterns = ["_build", "_site", "figures"]
nitpicky = True
nitpick_ignore_regex = [("py:class", r"(collections\.abc|numpy)\..*")]
highlight_language = "none"

html_theme = "furo"
html_title = f"drfl {release}"
html_show_copyright = False
html_show_sphinx = False
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# A docstring says in words what a parameter is.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
numpydoc_show_class_members = False
# scikit-learn makes all but the last; a session is the server half of a solver.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, "
    "set_predict_proba_request, set_predict_log_proba_request, set_decision_function_request, "
    "session",
}
