"""Is the optimisation proved?"""

from __future__ import annotations

from drfl.problem import Json
from drfl.report.blocks import Block, FactsBlock, Section, TableBlock, Text
from drfl.report.evidence import Evidence, name, number, objects_of, sentence
from drfl.report.figures import count, plain
from drfl.report.suppression import Groups

QUESTION = "Is the optimisation proved?"
MEANING = (
    "The worst-case loss is what the model loses on average against the worst distributions and "
    "the worst weights that its radii allow. The lower bound holds for every model of this kind; "
    "the relative gap between the two is what better training could still gain at most."
)
NETWORK = (
    "Of a network nothing is proved: its problem is not convex, and a better one may exist. The "
    "worst-case loss is what the attack of the training found; what the layers prove of it is "
    "under the question what the model is protected against."
)
SAID = {
    "certified": "Yes: it is optimal up to the tolerance, and that is proved.",
    "local": "It is the end of a method that has no proof; its bound, if any, is stated below.",
    "private": "As good as the privacy budget allows, and proved with probability 99 %.",
    "stopped": "It is a model on the way: the run was stopped before its tolerance.",
    "max_rounds": "It is a model on the way: the run used up its rounds before its tolerance.",
}


def section(evidence: Evidence, groups: Groups) -> Section:
    """The first section: objective, bound, gap, status."""
    models = evidence.models
    if not models:
        return Section("proof", QUESTION, "Nothing was proved.")
    worst = max(models, key=lambda model: number(model.get("gap")) or 0.0)
    kind = str(objects_of(worst.get("status")).get("kind"))
    answer = SAID.get(kind, "The status below says how the run ended.")
    bound, objective = number(worst.get("lower_bound")), number(worst.get("objective"))
    if evidence.network:
        answer = f"That is not proved. Its worst-case loss, as found, is {plain(objective, 6)}."
    elif objective is not None and bound is not None:
        answer += (
            f" Its worst-case loss is {plain(objective, 6)}, and no model of this kind has less "
            f"than {plain(bound, 6)}."
        )
    blocks: list[Block] = [
        FactsBlock(
            [
                ("status", name(kind.replace("_", " "))),
                ("worst-case loss", plain(objective, 6)),
                ("proved lower bound", plain(bound, 6)),
                ("relative gap", plain(number(worst.get("gap")), 2)),
                ("clients", count(len(groups.clients))),
                ("rows", count(groups.total())),
            ]
        ),
        Text(NETWORK if evidence.network else MEANING, "note"),
    ]
    if len(models) > 1:
        blocks.append(_by_class(models, groups.classes))
    else:
        blocks.append(Text(_message(worst), "note"))
    return Section("proof", QUESTION, answer, blocks)


def _message(model: Json) -> str:
    said = sentence(objects_of(model.get("status")).get("message"))
    return f"Status: {said}." if said else ""


def _by_class(models: list[Json], classes: list[str]) -> TableBlock:
    rows = [
        [
            model_name(k, len(models), classes),
            name(objects_of(model.get("status")).get("kind", "")),
            plain(number(model.get("objective")), 6),
            plain(number(model.get("lower_bound")), 6),
            plain(number(model.get("gap")), 2),
        ]
        for k, model in enumerate(models)
    ]
    caption = "One model for each class against the rest; above, the one with the largest gap."
    head = ["class", "status", "worst-case loss", "lower bound", "relative gap"]
    return TableBlock(caption, head, rows, texts=2)


def model_name(k: int, models: int, classes: list[str]) -> str:
    """Which linear model it is, for a reader."""
    if models == 1:
        return "the model"
    return f"class {classes[k]}" if len(classes) == models else f"model {k + 1}"
