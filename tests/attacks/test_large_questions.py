"""Questions so large, or in units so small, that rounding to a fixed grid would hide nothing.

The coordinator chooses w. With a slope of a million one row beyond a kink is a thousand steps of
any fixed grid; what is told has to be coarse in units of the question itself.
"""

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem, told_value

import drfl

N, n, K = 150, 4, 5
LARGE = 1e6


def client(settings, unit=1.0):
    """Rows in units of this size, which a large w would have to be."""
    plain = make_client(N, n)
    X = plain.rows.take(slice(None))
    return drfl.Client("target", unit * X, plain.rows.y, guard=settings), X


def extreme(server, j, sign, size, unit):
    """The largest entry of a column, by bisection for the kink that is last.

    Beyond all rows the loss is a line, which the sums of the classes tell.
    """
    rows = server.client.rows
    a = np.column_stack([rows.take(slice(None)), np.ones(N)]) * (rows.y > 0.0)[:, None]
    share, sums = (rows.y > 0.0).mean(), a.mean(axis=0)

    def beyond(t):
        x = np.zeros(n + 1)
        x[j], x[-1] = sign * size / unit, -size * t
        return (told_value(server, x) - 0.01 * np.abs(x[:-1]).max() - share + sums @ x) / size

    nothing = max(beyond(12.0), beyond(11.0), 0.0)
    low, high = -1.0, 10.0
    for _ in range(13):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if beyond(middle) > 4.0 * nothing + 1e-7 else (low, middle)
    return high


@pytest.mark.parametrize(("size", "unit"), [(LARGE, 1.0), (1e3, 1.0), (LARGE, 1e3)])
@pytest.mark.sampled(2)
def test_extremes_of_columns(size, unit, table):
    """A row beyond all others adds to the loss what no other row does."""
    errors = {False: [], True: []}
    for j in range(2):
        for sign in (1.0, -1.0):
            for guarded, found in errors.items():
                rows, X = client(guard(K) if guarded else None, unit)
                told = extreme(Server(rows, make_problem()), j, sign, size, unit)
                found.append(abs(told - (sign * X[:, j]).max()))
    assert np.median(errors[False]) < 3e-3
    assert np.median(errors[True]) > 0.3
    attack = "extremes of columns, by scalars at w of 10³ to 10⁶ or in such units: error"
    table(attack, *map(np.median, errors.values()), "deviations")


@pytest.mark.parametrize("size", [1e2, LARGE])
def test_rows_turned_over_by_large_points(size, table):
    """The value of a model is told more closely at the end, and here the model is a server's."""
    rng = np.random.default_rng(3)
    w = size * rng.normal(size=n)
    plain = make_client(N, n)
    kinks = np.sort(plain.rows.y - plain.rows.scores(w, 0.0))  # where b turns a row over
    alone = np.minimum(np.diff(kinks)[1:], np.diff(kinks)[:-1])
    errors = {False: [], True: []}
    for place in np.argsort(-alone)[:9]:
        for guarded, found in errors.items():
            server = Server(make_client(N, n, guard(K) if guarded else None), make_problem())
            step = 0.9 * alone[place]
            before, here, after = (
                told_value(server, np.append(w, kinks[place + 1] + side * step))
                for side in (-1.0, 0.0, 1.0)
            )
            jump = (before - 2.0 * here + after) / step
            found.append(abs(jump * N - 1.0))  # the slope in b changes by 1/N
    assert np.median(errors[False]) < 1e-2
    assert np.median(errors[True]) > 0.9
    attack = "rows turned over at w of 10² to 10⁶, second differences of scalars: error"
    table(attack, *map(np.median, errors.values()), "jumps")
