"""Fit one linear classifier to heart patients in three hospitals without pooling their data.

Run it with ``make demo``, or with ``python examples/quickstart.py`` where drfl is installed.
"""

import numpy as np

import drfl
from drfl.datasets import load_heart, partition


def main() -> None:
    heart = load_heart()
    hospitals = partition.random(len(heart.target), 3, np.random.default_rng(0))
    clients = [
        drfl.Client(name, heart.data[rows], heart.target[rows])
        for name, rows in zip(["north", "south", "west"], hospitals, strict=True)
    ]
    # On average a future patient may differ from one seen by 0.01 in a feature, or in the label,
    # which costs 1; and the hospitals' shares of the patients may be off by 0.1 in all.
    problem = drfl.Problem(
        loss="hinge",
        ball=drfl.Ball(radius=0.01, norm="l1", label_cost=1.0),
        mixture=drfl.Mixture(radius=0.1, p=1),
    )
    result = drfl.solve(problem, clients, tol=1e-6)

    print(result.summary())
    print()
    for name, weight in zip(heart.feature_names, result.coef, strict=True):
        print(f"{name:>24}  {weight:+.4f}")
    scores = heart.data @ result.coef + result.intercept
    accuracy = np.mean(np.sign(scores) == heart.target)
    print(f"{accuracy:.1%} of the patients are classified correctly")


if __name__ == "__main__":
    main()
