"""A run's records made up by hand, with everything a report can show; names may be hostile."""

import json

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--&amp;'"
CLIENTS = ("north", "south", "west")
FEATURES = ("age", "pressure", "sex=f")


def run_records(evil=""):
    """Records in the order of a run; ``evil`` is added to every name that comes from data."""
    north, south, west = (name + evil for name in CLIENTS)
    features = [name + evil for name in FEATURES]
    rows = {north: 60, south: 40, west: 3}
    by_client = {
        north: {"accuracy": 0.85, "balanced_accuracy": 0.84, "auc": 0.91},
        south: {"accuracy": 0.75, "balanced_accuracy": 0.74, "auc": 0.81},
        west: {"accuracy": 0.666777, "balanced_accuracy": 0.777666, "auc": 0.5},
    }
    sent = dict.fromkeys(rows, 700)
    records = [
        {"kind": "start", "drfl": "0.1.0", "python": "3.11.7", "numpy": "2.0.0", "seed": 7},
        {"kind": "settings", "target": "disease" + evil, "radius": 0.05, "label_cost": "inf"},
        {
            "kind": "preflight",
            "target": "disease" + evil,
            "classes": ["no" + evil, "yes" + evil],
            "rows": rows,
            "class_counts": {north: [35, 25], south: [37, 3], west: [2, 1]},
            "bytes_up": sent,
            "bytes_down": sent,
        },
        {
            "kind": "problem",
            "loss": {"name": "hinge"},
            "ball": {"radius": 0.05, "norm": "l1", "label_cost": 2.0, "support": {}},
            "mixture": {"center": "uniform", "radius": 0.2, "p": 1},
            "intercept": "shared",
            "shared_ball": False,
        },
        {"kind": "units", "shift": [50.0, 120.0, 0.0], "scale": [10.0, 20.0, 1.0]},
        {
            "kind": "selection",
            "rule": "mean",
            "reason": f"radius 0.05 has the best mean score{evil}",
            "table": [
                {
                    "params": {"radius": radius},
                    "mean": 0.8 - radius,
                    "standard_error": 0.01,
                    "client_scores": {north: 0.82, south: 0.78, west: 0.123321},
                    "worst_client": west,
                    "worst_score": 0.123321,
                    "rounds": 12,
                    "note": "",
                }
                for radius in (0.0, 0.05, 0.2)
            ],
        },
    ]
    records += [
        {
            "kind": "round",
            "model": 0,
            "round": k,
            "objective": 0.4 + 0.5 / k**2,
            "lower_bound": 0.4 - 0.4 / k**2,
            "gap": 1.0 / k**4,
            "bytes_up": dict.fromkeys(rows, 500 * k),
            "bytes_down": dict.fromkeys(rows, 100 * k),
            "seconds_clients": 0.01 * k,
            "seconds_server": 0.02 * k,
        }
        for k in range(1, 13)
    ]
    model = {
        "coef": [0.5, -0.25, 0.0],
        "intercept": 0.1,
        "objective": 0.4035,
        "lower_bound": 0.3972,
        "gap": 0.0156,
        "status": {"kind": "certified", "message": f"within the tolerance{evil}"},
        "weights": {north: 0.3, south: 0.4, west: 0.3},
        "losses": {north: 0.38, south: 0.456789, west: 0.424242},
    }
    done = {"gap": 0.0156, "rounds": 12, "kilobytes": 21.6, "clients": by_client}
    records.append(
        {"kind": "result", "method": "drfl", **done, "features": features, "models": [model]}
    )
    records.append({"kind": "comparison", "method": f"erm{evil}", **done})
    for client in rows:
        moves = dict(zip(features, (0.01, 0.04, 0.0), strict=True))
        facts = {"loss": 0.3, "worst_loss": 0.38, "price": 0.5, "labels_changed": 0.02}
        facts |= {"features_moved": 0.05, "scaled_moves": moves, "attained": True}
        records.append({"kind": "adversary", "model": 0, "client": client, "weight": 0.3} | facts)
        for level in (0.0, 0.5, 1.0):
            scores = {"accuracy": 0.85 - level / 5}
            records.append({"kind": "noise", "client": client, "noise": level, "scores": scores})
        message = {"kind": "messages", "client": client, "message": "evaluate/reply", "count": 12}
        records.append(message | {"bytes": 6000, "arrays": {"value": [], "cuts": [3, 4]}})
    for level in (0.0, 1.0):
        for radius in (0.0, 0.05, 0.2):
            scores = {name: {"accuracy": 0.8 - level / 5 + radius / 4} for name in rows}
            records.append({"kind": "radius", "radius": radius, "noise": level, "clients": scores})
    ends = {"low": [0.3, -0.5, -0.1], "high": [0.7, -0.1, 0.1]}
    records.append({"kind": "bootstrap", "model": 0, "refits": 30, "level": 0.9} | ends)
    return records


def write_run(folder, records):
    """The folder of a run that holds its records alone."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "records.jsonl").write_text(lines, encoding="utf-8")
    return folder
