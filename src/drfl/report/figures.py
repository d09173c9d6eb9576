"""Numbers as a reader sees them."""

from __future__ import annotations

ABSENT = "–"
_SHARES = ("accuracy", "balanced_accuracy", "sensitivity", "specificity")
_TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "area under the ROC curve",
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "squared_error": "mean squared error",
    "absolute_error": "mean absolute error",
    "log_loss": "log loss",
}


def plain(value: float | None, digits: int = 5) -> str:
    """A number with some digits.

    Examples
    --------
    >>> plain(0.432096), plain(-3e-9), plain(1200.0), plain(None)
    ('0.4321', '−3e-09', '1200', '–')
    """
    return ABSENT if value is None else f"{value:.{digits}g}".replace("-", "−", 1)


def count(value: float | None) -> str:
    """A number of things.

    Examples
    --------
    >>> count(12345)
    '12\u202f345'
    """
    return ABSENT if value is None else f"{value:,.0f}".replace(",", "\u202f")


def share(value: float | None) -> str:
    r"""A part of a whole.

    Examples
    --------
    >>> share(0.8413)
    '84.1\xa0%'
    """
    return ABSENT if value is None else f"{100 * value:.1f}\u00a0%"


def size(value: float | None) -> str:
    """A number of bytes, in kB of 1000.

    Examples
    --------
    >>> size(6753)
    '6.8 kB'
    """
    return ABSENT if value is None else f"{value / 1000:,.1f} kB".replace(",", "\u202f")


def metric(name: str, value: float | None) -> str:
    """The value of a metric."""
    return share(value) if name in _SHARES else plain(value, 4)


def title(name: str) -> str:
    """The metric in words."""
    return _TITLES.get(name, name.replace("_", " "))
