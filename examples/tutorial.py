"""The tutorial in Python: from three CSV files to a model, a report and predictions.

Run it with ``python examples/tutorial.py`` where drfl is installed; ``docs/tutorial.md`` does the
same on the command line, and explains it.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

import drfl
from drfl.baselines import ERMClassifier
from drfl.datasets import add_noise, load_heart, partition
from drfl.report import Plan

HOSPITALS = ["north", "south", "west"]
TARGET = "disease"


def write_files(folder: Path) -> None:
    """What a hospital's system would give you; the fourth part are patients yet to come."""
    heart = load_heart(scaled=False)
    parts = partition.random(len(heart.target), 4, np.random.default_rng(0))
    for name, rows in zip([*HOSPITALS, "new"], parts, strict=True):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*heart.feature_names, TARGET])
            for i in rows:
                writer.writerow([*heart.data[i], "yes" if heart.target[i] > 0 else "no"])


def read_file(path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    with open(path, newline="") as file:
        names, *rows = csv.reader(file)
    assert names[-1] == TARGET
    X = np.array([[float(value) for value in row[:-1]] for row in rows])
    return X, np.array([row[-1] for row in rows]), names[:-1]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="drfl-tutorial-"))
    write_files(folder)
    tables = {name: read_file(folder / f"{name}.csv") for name in HOSPITALS}
    X = np.vstack([table[0] for table in tables.values()])
    y = np.concatenate([table[1] for table in tables.values()])
    clients = np.repeat(HOSPITALS, [len(table[1]) for table in tables.values()])
    names = tables["north"][2]

    # A radius is in units of the features: standardise them.
    scaler = StandardScaler().fit(X)
    X = scaler.transform(X)

    # Each hospital holds out folds of its own rows, and tells one score per model.
    found = drfl.select(
        drfl.DRFLClassifier(label_cost=5.0, tol=1e-4),
        X,
        y,
        clients,
        grid={"radius": [0.0, 0.05, 0.1]},
        rule="mean",
        folds=3,
        random_state=0,
        verbose=0,
    )
    print(found)
    model = found.estimator
    print(model.status_)
    for name, weight, loss in zip(
        model.client_names_, model.client_weights_, model.client_losses_, strict=True
    ):
        print(f"{name}: worst weight {weight:.3f}, worst-case loss {loss:.4f}")
    strongest = np.argsort(-np.abs(model.coef_[0]))[:3]
    print("most is carried by", ", ".join(names[j] for j in strongest))

    # Patients yet to come, as they are and on a bad day in the laboratory.
    X_new, y_new, _ = read_file(folder / "new.csv")
    X_new = scaler.transform(X_new)
    noisy = add_noise(X_new, 0.0, 1.0, np.random.default_rng(0))
    plain = ERMClassifier().fit(X, y, clients=clients)
    for kind, fit in (("robust", model), ("plain", plain)):
        right, in_noise = fit.score(X_new, y_new), fit.score(noisy, y_new)
        print(f"{kind}: {right:.1%} right, {in_noise:.1%} in noise")

    # A page for those who decide, and a file for those who predict. The plan is a short one.
    plan = Plan(bootstrap=3, noise=(0.0, 1.0), draws=2, radii=False, methods=("erm",))
    page = drfl.report(found, folder / "report.html", X, y, clients, plan=plan)
    path = folder / "model.json"
    drfl.save(model, path)
    print(drfl.load(path).predict(X_new)[:5])
    print(f"written: {page} and {path}")


if __name__ == "__main__":
    main()
