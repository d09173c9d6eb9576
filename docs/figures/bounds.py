"""Draw docs/figures/bounds.svg: how fast the gap closes on the heart data over ten clients.

    python docs/figures/bounds.py

The bundle method's true and proved gap by round, beside the paper's Algorithm 1 (the best of six
step sizes, and asked for its objective in every fifth round).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import drfl
from drfl.datasets import load_heart, partition
from drfl.solvers.admm import AdLpmm

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 62, 150, 24, 48
ROUNDS, DECADES = 60, (-6, 0)
STEP_SIZES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
Curve = list[tuple[int, float]]


def curves() -> dict[str, Curve]:
    """Relative gaps by round."""
    heart = load_heart()
    parts = partition.random(len(heart.target), 10, np.random.default_rng(0))
    clients = [drfl.Client(f"c{s}", heart.data[i], heart.target[i]) for s, i in enumerate(parts)]
    ball = drfl.Ball(radius=0.01, norm="l1", label_cost=1e3)
    problem = drfl.Problem("hinge", ball, drfl.Mixture(radius=0.1), intercept="none")
    best = drfl.solve(problem, clients, tol=1e-9).objective
    bundle = drfl.solve(problem, clients, tol=1e-6)
    printed = [
        drfl.solve(problem, clients, solver=AdLpmm(c=c), tol=1e-6, max_rounds=ROUNDS)
        for c in STEP_SIZES
    ]
    algorithm = min(printed, key=lambda result: result.objective)
    return {
        "bundle, proved": [(r.round, r.gap) for r in bundle.history],
        "bundle, true": [(r.round, (r.objective - best) / best) for r in bundle.history],
        "Algorithm 1, true": [(r.round, (r.objective - best) / best) for r in algorithm.history],
    }


def x_of(round: float) -> float:
    """From rounds to pixels."""
    return LEFT + (WIDTH - LEFT - RIGHT) * round / ROUNDS


def y_of(gap: float) -> float:
    """From gaps, on a logarithmic scale, to pixels."""
    low, high = DECADES
    level = min(max(math.log10(max(gap, 1e-300)), low), high)
    return TOP + (HEIGHT - TOP - BOTTOM) * (high - level) / (high - low)


def draw(named: dict[str, Curve]) -> str:
    """The picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#444">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for decade in range(DECADES[0], DECADES[1] + 1):
        y = y_of(10.0**decade)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e{decade}</text>')
    for round in range(0, ROUNDS + 1, 10):
        at = f'x="{x_of(round):.1f}" y="{HEIGHT - BOTTOM + 20}"'
        parts.append(f'<text {at} text-anchor="middle">{round}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">communication rounds</text>'
    )
    for (name, curve), colour in zip(named.items(), ("#1f6feb", "#7fb2ff", "#d1603d"), strict=True):
        shown = [(k, gap) for k, gap in curve if math.isfinite(gap)]
        path = "L".join(f"{x_of(k):.1f} {y_of(gap):.1f}" for k, gap in shown)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        k, gap = shown[-1]
        # A curve that reaches the floor ends there: its name stands beside the end.
        lift = -10 if name.endswith("proved") else 8
        parts.append(
            f'<text x="{x_of(k) + 8:.1f}" y="{y_of(gap) + lift:.1f}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    target = Path(__file__).with_suffix(".svg")
    target.write_text(draw(curves()), encoding="utf-8")
    print(f"wrote {target}")
