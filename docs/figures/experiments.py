"""Put the results of `python -m experiments` into docs/experiments.md, with their pictures.

    python docs/figures/experiments.py FOLDER [FOLDER ...]

Each folder is one that `python -m experiments --out` has written to. Of several runs of an
experiment the one with the most seeds is shown. What stands before the marker in the page stays
as it is.
"""

import json
import re
import sys
from pathlib import Path

from PIL import Image

PAGE = Path(__file__).resolve().parent.parent / "experiments.md"
MARKER = "<!-- what follows is written by docs/figures/experiments.py -->"
NOISE = {
    "heart": "Heart",
    "abalone": "Abalone",
    "breast-cancer": "Breast cancer",
    "heart-imbalanced": "Heart, imbalanced classes",
    "breast-cancer-imbalanced": "Breast cancer, imbalanced classes",
}
OTHERS = {
    "volume": "Example 4.1: coverage and volume",
    "convergence": "Convergence",
    "heterogeneity": "Heterogeneity",
}
REMARKS = {
    "volume": "The paper gives no atoms, probabilities and weights; those of the command are ours "
    "(`python -m experiments volume --settings`). DRFL's set leaves the weights free, as Appendix "
    "D checks it; with known weights (`--set known_q=true`) WAFL never needs the larger radius, by "
    "convexity, whatever the supports. Two standard errors as the allowance of claim 2 were chosen "
    "after first numbers had been seen.",
    "convergence": "Heart data, hinge loss, radius 0.01, label cost 1, mixture radius 0.1. "
    "Algorithm 1 and its versions have the best of the listed step sizes, chosen by where they "
    "end, which flatters them; their objective is evaluated every fifth round. The double loop "
    "makes 5 ascent steps of the weights, each a round, for every step of the model, and 10 steps "
    "of a client's multiplier in every round.",
    "heterogeneity": "Clients whose shares of the classes (or ranges of the target) differ; one "
    "client with noisy training rows; a client that was not there in training. The strength of the "
    "skew and of the noise were chosen after first numbers had been seen. Tables by rule are in "
    "`table.md`.",
}


def main(folders: list[Path]) -> None:
    """Write the page."""
    lines = [PAGE.read_text(encoding="utf-8").partition(MARKER)[0].rstrip(), "", MARKER, ""]
    for head, names in {"noise (Sections 6.1 and 6.2)": NOISE, "the others": OTHERS}.items():
        lines += [f"## Results: {head}", ""]
        for name, title in names.items():
            found = [folder / name for folder in folders if (folder / name / "table.md").exists()]
            if found:
                lines += section(name, title, max(found, key=seeds))
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def section(name: str, title: str, folder: Path) -> list[str]:
    """What was run, pictures, tables, findings."""
    text = (folder / "table.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("What holds and what does not:\n\n")
    findings, _, tables = rest.partition("\n\n")
    tables = tables.partition("Means and two standard errors:")[0]  # too long for a page
    command, intro = [line.strip() for line in head.splitlines() if line and line[0] != "#"]
    minutes = sum(task["processor"] for task in tasks(folder)) / 60.0
    lines = [f"### {title}", "", f"`{command}`. {intro} {minutes:.1f} processor minutes.", ""]
    lines += [REMARKS[name], ""] if name in REMARKS else []
    for picture in sorted(folder.glob("*.png")):
        target = PAGE.parent / "figures" / f"experiment-{picture.name}"
        colours = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        colours.save(target, optimize=True)
        lines += [f"![{title}: {picture.stem}](figures/{target.name})", ""]
    if name != "heterogeneity":
        lines += [tables.strip(), ""]
    return [*lines, "What holds and what does not:", "", findings.strip(), ""]


def tasks(folder: Path) -> list[dict]:
    """The finished tasks."""
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def seeds(folder: Path) -> int:
    """How many there are."""
    found = re.search(r"Seeds: (\d+)", (folder / "table.md").read_text(encoding="utf-8"))
    return int(found.group(1)) if found else 0


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
