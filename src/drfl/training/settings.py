"""All settings of a training, from a TOML file and from flags; and back to TOML."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from drfl import defaults
from drfl._registry import listed, lookup
from drfl.protocols.data_request import TASKS, DataRequest
from drfl.tables.encoding import MISSING, SCALES
from drfl.tables.read import read_column
from drfl.tables.reading import MISSING_TEXTS, Reading
from drfl.training import fields as read
from drfl.training.fields import Setting

PURPOSES = tuple(name.replace(" ", "-") for name in defaults.PURPOSES)


def _purpose(name: str, value: Any) -> str:
    """A purpose, written with hyphens."""
    known = {word: word for word in PURPOSES}
    return lookup(name, value.replace(" ", "-") if isinstance(value, str) else value, known)


FIELDS: dict[str, Setting] = {
    "client_column": Setting(
        None, read.text, "a column of the files that names the client of a row"
    ),
    "rename": Setting(
        (), read.texts, "columns called otherwise in a file: CLIENT:OLD=NEW, or OLD=NEW in all"
    ),
    "target": Setting(None, read.text, "the column that is predicted"),
    "task": Setting("auto", read.one_of(*TASKS), f"what the target is: {', '.join(TASKS)}"),
    "missing": Setting("error", read.one_of(*MISSING), f"missing values: {', '.join(MISSING)}"),
    "missing_columns": Setting(
        {}, read.pairs, "the same for single columns: CA=indicator,DOSE=drop"
    ),
    "max_missing": Setting(
        1.0, read.number, "leave out a column with a larger share of gaps at any client: 0.5"
    ),
    "scale": Setting("federated", read.one_of(*SCALES), f"of numbers: {', '.join(SCALES)}"),
    "categorical": Setting((), read.texts, "columns of numbers that are categories"),
    "decimal": Setting(".", read.one_of(".", ","), "what separates decimals in the files: . or ,"),
    "merge_labels": Setting(
        False, read.flag, "texts that differ in case and blanks alone are one: true, false"
    ),
    "exclude": Setting((), read.texts, "columns that are left out"),
    "support": Setting({}, read.bounds, "bounds of columns in the files' units: AGE=0:120,..."),
    "loss": Setting(
        "auto", read.text, "logistic for classes and huber for numbers, or see `drfl list`"
    ),
    "epsilon": Setting(None, read.number, "of the losses huber and epsilon_insensitive"),
    "quantile": Setting(None, read.number, "of the loss pinball"),
    "purpose": Setting("these-clients", _purpose, f"what the model is for: {', '.join(PURPOSES)}"),
    "radius": Setting(
        "auto",
        read.radius,
        "of the ball around a client's rows; auto: 0.1 sqrt(columns/rows), 0 for a network; "
        "confidence: as large as a confidence of 0.95 needs",
    ),
    "label_cost": Setting(math.inf, read.number, "what it costs to change a label; inf: never"),
    "multiclass": Setting(
        "auto",
        read.text,
        "of more than two classes: joint (all at once), ovr (one against the rest) or auto",
    ),
    "norm": Setting("l2", read.text, "in which changes of features are measured: l2, l1, linf"),
    "additive": Setting(
        (),
        read.texts,
        "columns with a curve instead of a line, or all: age,chol; auto: all, if held-out rows say "
        "that curves pay; norm l1 or linf",
    ),
    "knots": Setting(
        4, read.knots, "where curves bend: how many knots, or a list in standard deviations"
    ),
    "increasing": Setting((), read.texts, "columns whose curve must not fall"),
    "decreasing": Setting((), read.texts, "columns whose curve must not rise"),
    "convex": Setting((), read.texts, "columns whose curve bends upwards"),
    "concave": Setting((), read.texts, "columns whose curve bends downwards"),
    "flat_ends": Setting((), read.texts, "columns whose curve is flat beyond its knots"),
    "module": Setting(
        None,
        read.text,
        "a network instead of lines: mlp:32,16 for its hidden layers, or the name of a module that "
        "every client has installed",
    ),
    "order": Setting(
        2.0, read.number, "of a network's ball: 2, rows move so far in the mean square; inf, each"
    ),
    "local_steps": Setting(5, read.whole, "of a network at a client in every round"),
    "step_size": Setting(None, read.number, "of these steps (0.1)"),
    "batch_size": Setting(None, read.whole, "rows of such a step, drawn anew; by default all"),
    "participation": Setting(
        1.0, read.number, "of a network's rounds: the share of the clients that is asked"
    ),
    "mixture_radius": Setting(
        "auto",
        read.word_or("auto", read.number),
        "of the clients' weights; auto: by the purpose, 0",
    ),
    "mixture_norm": Setting(1.0, read.number, "in which that is measured: 1, 2, inf"),
    "mixture_center": Setting("proportional", read.center, "proportional, uniform, or weights"),
    "max_weight": Setting(
        math.inf, read.number, "no client weighs more, whatever its loss; inf: no such bound"
    ),
    "intercept": Setting(
        "shared", read.intercept, "whose intercept there is: shared, per-client (its own), none"
    ),
    "solver": Setting("bundle", read.text, "the method, see `drfl list`"),
    "engine": Setting("serial", read.text, "how messages travel: serial, processes"),
    "tol": Setting(1e-6, read.number, "stop when the proved relative gap is at most this"),
    "max_rounds": Setting(200, read.whole, "stop after so many rounds"),
    "select": Setting(None, read.text, "choose the radius by this rule, see `drfl list`"),
    "folds": Setting(5, read.whole, "of the selection and the validation"),
    "noise_scale": Setting(None, read.number, "of the selection by the rule noise"),
    "compare": Setting((), read.texts, "other methods to train beside: erm,afl,drfa,wafl,..."),
    "validation": Setting(
        True, read.flag, "whether the model is judged on rows and clients it has not seen"
    ),
    "threshold": Setting(
        (0.5,), read.probabilities, "of the probability, where the validation counts decisions: 0.2"
    ),
    "by": Setting(
        (),
        read.groups,
        "groups of rows that the validation judges: sex, or age:50,65; may be repeated",
    ),
    "guard": Setting(
        None,
        read.word_or("dp", read.whole),
        "what leaves a client tells of at least so many rows: 5; or dp: differential privacy",
    ),
    "privacy_epsilon": Setting(None, read.number, "with guard = dp: what a client may tell in all"),
    "privacy_delta": Setting(1e-6, read.number, "with guard = dp: how surely"),
    "privacy_norm": Setting(
        None, read.number, "with guard = dp: bound of rows in units of half the ranges"
    ),
    "ranges": Setting({}, read.bounds, "with guard = dp: public ranges of all columns: AGE=0:120"),
    "classes": Setting((), read.texts, "with guard = dp: the public labels of the target: no,yes"),
    "leave_out": Setting(
        None,
        read.flag,
        "train without each client too, to see what it does to the others: true, false; by default "
        "at sites without a guard",
    ),
    "inference": Setting(
        True, read.flag, "whether clients are asked for standard errors at the end: true, false"
    ),
    "keep_cuts": Setting(
        False, read.flag, "whether a certified run keeps the clients' answers: true, false"
    ),
    "seed": Setting(0, read.whole, "of all that is drawn at random"),
}
"""Every setting but the clients."""

FREE = ("max_rounds", "engine", "compare", "leave_out", "keep_cuts", "validation", "inference")
"""What may change when a run is resumed."""


@dataclass(frozen=True)
class Settings:
    """The settings by name, and the clients' files by client name; None: it is elsewhere."""

    clients: dict[str, Path | None]
    values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name, FIELDS[name].default)

    @property
    def private(self) -> bool:
        """Whether clients tell noisy means only, for differential privacy."""
        return bool(self["solver"] == "private")

    def files(self) -> dict[str, Path]:
        """The files that are here."""
        return {name: path for name, path in self.clients.items() if path is not None}

    def readings(self) -> dict[str, Reading]:
        """How the file of every client here is to be read: its names, its rows, its decimals."""
        column = self["client_column"]
        names: dict[str, dict[str, str]] = {name: {} for name in self.clients}
        for entry in self["rename"]:
            for client, old, new in _renamed(entry, self.clients):
                names[client][new] = old
        return {
            client: Reading(
                names=names[client],
                decimal=self["decimal"],
                where=None if column is None else (column, client),
            )
            for client in self.clients
        }

    def data_request(self) -> DataRequest:
        """What the preflight asks for."""
        names = [f.name for f in fields(DataRequest)]
        return DataRequest(**{name: self[name] for name in names})

    def with_values(self, **values: Any) -> Settings:
        """The same with other values."""
        return replace(self, values={**self.values, **values})

    def all(self) -> dict[str, Any]:
        """Every setting that has a value."""
        found = {name: self[name] for name in FIELDS}
        return {name: value for name, value in found.items() if value is not None}


def read_settings(config: Path | None, flags: Mapping[str, Any], clients: list[str]) -> Settings:
    """Settings of a file, overridden by those of the command line.

    Paths in the TOML file are relative to its folder; flags are texts, None where one was not
    given; clients are files, or NAME=FILE.
    """
    data = {} if config is None else read_toml(config, "write one with `drfl init`")
    files = data.pop("clients", {})
    where = Path() if config is None else config.parent
    if not isinstance(files, dict) or not all(isinstance(f, str) for f in files.values()):
        raise ValueError(f"{config}: [clients] must give a file for every client's name")
    named: dict[str, Path | None] = {name: where / file for name, file in files.items()}
    named.update(dict.fromkeys(read.texts("sites", data.pop("sites", []))))
    if clients:
        named = {**named_files(clients)}
    texts = {name: value for name, value in flags.items() if value is not None}
    column = texts.get("client_column", data.get("client_column"))
    if column is not None and all(path is not None for path in named.values()):
        named = {**divided([path for path in named.values() if path], column)}
    return from_values({**data, **texts}, named, flags=texts)


def from_values(
    values: Mapping[str, Any], clients: Mapping[str, Path | None], flags: Collection[str] = ()
) -> Settings:
    """Settings from values as they are in TOML; those of flags are called so if they are wrong."""

    def called(name: str) -> str:
        return flag_of(name) if name in flags else name

    found = read.read_values("setting", FIELDS, values, called)
    return _complete(Settings(dict(clients), found))


FLAGS = {"purpose": "for"}  # flags that are not called as their settings


def flag_of(name: str) -> str:
    """The flag of a setting.

    Examples
    --------
    >>> flag_of("max_missing")
    '--max-missing'
    """
    return f"--{FLAGS.get(name, name.replace('_', '-'))}"


def divided(paths: Sequence[Path], column: str) -> dict[str, Path]:
    """The clients that a column of files names, in the order in which they come."""
    found: dict[str, Path] = {}
    for path in dict.fromkeys(paths):
        texts = read_column(path, column)
        gaps = [k for k, text in enumerate(texts) if text in MISSING_TEXTS]
        if gaps:
            raise ValueError(
                f"{path}: {len(gaps)} rows have no value of --client-column {column}, the first is "
                f"row {gaps[0] + 1}: name the client of every row"
            )
        for name in dict.fromkeys(texts):
            if name in found:
                raise ValueError(f"client {name!r} has rows in {found[name]} and in {path}")
            found[name] = path
    return found


def _renamed(entry: str, clients: Iterable[str]) -> list[tuple[str, str, str]]:
    """Client, old and new name of an entry of ``rename``."""
    known = list(clients)
    owner = max((c for c in known if entry.startswith(f"{c}:")), key=len, default=None)
    old, equals, new = (entry if owner is None else entry[len(owner) + 1 :]).rpartition("=")
    if not (equals and old.strip() and new.strip()):
        raise ValueError(f"--rename {entry}: write CLIENT:OLD=NEW, or OLD=NEW for all clients")
    if owner is None and ":" in old:
        raise ValueError(f"--rename {entry}: there is no such client, there are {listed(known)}")
    return [(c, old.strip(), new.strip()) for c in (known if owner is None else [owner])]


def _complete(settings: Settings) -> Settings:
    if settings["guard"] == "dp" and "solver" not in settings.values:
        settings = settings.with_values(solver="private")
    if settings.private and "missing" not in settings.values:
        # A gap becomes the middle of its range: whether there is one must not be told.
        settings = settings.with_values(missing="mean")
    if settings["module"] is not None and "solver" not in settings.values:
        uncertain = settings["mixture_radius"] not in ("auto", 0.0)
        settings = settings.with_values(solver="dual_admm" if uncertain else "fedavg")
    if settings["additive"] and "norm" not in settings.values:
        settings = settings.with_values(norm="l1")  # the norm of which ramps are an isometry
    if settings["additive"] == ("auto",) and not settings["select"]:
        # A radius that is best on clean rows makes curves worse than lines once they are noisy.
        settings = settings.with_values(select="one_se")
    settings.readings()  # what is wrong with them is said now
    if not settings.clients:
        raise ValueError("there is no client: give --client FILE for each, or a settings file")
    if settings["target"] is None:
        files = settings.clients.values()
        if all(path and path.suffix in (".libsvm", ".svm", ".svmlight") for path in files):
            return settings.with_values(target="label")
        raise ValueError("there is no target: give --target COLUMN")
    return settings


def named_files(clients: list[str]) -> dict[str, Path]:
    """Files by client name: that of the file without its ending, or as given in NAME=FILE."""
    found: dict[str, Path] = {}
    for entry in clients:
        name, equals, file = entry.partition("=")
        path = Path(file if equals else entry)
        name = name if equals else _stem(path)
        if name in found:
            raise ValueError(f"two clients are called {name!r}: give them names, like north={path}")
        found[name] = path
    return found


def _stem(path: Path) -> str:
    """The name of a file without its ending, also of a compressed one."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def read_toml(path: Path, advice: str) -> dict[str, Any]:
    """What a file holds; what is wrong with it, and what to do, is said in a sentence."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist: {advice}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def to_toml(settings: Settings) -> str:
    """All settings as TOML."""
    lines = ["# The settings of this run.", ""]
    for name, value in settings.all().items():
        if name != "support":
            lines.append(f"{name} = {toml_value(value)}")
    if settings.files() != settings.clients:
        lines.append(f"sites = {toml_value(list(settings.clients))}")
    for table, entries in (("support", settings["support"]), ("clients", settings.files())):
        if table == "clients" and not entries:
            continue
        lines += ["", f"[{table}]"]
        lines += [
            f"{json.dumps(k, ensure_ascii=False)} = {toml_value(v)}" for k, v in entries.items()
        ]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """A value as TOML.

    Examples
    --------
    >>> print(toml_value([1.0, math.inf, "a", True]))
    [1.0, inf, "a", true]
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k, ensure_ascii=False)} = {toml_value(v)}" for k, v in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    # JSON escapes what TOML wants escaped, except for the character DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007F")


RULES = {
    "mean": "the best mean score over the clients",
    "one_se": "the largest radius within one standard error of it",
    "worst_client": "the best score of the worst client",
    "noise": "the best mean score on rows with noise (--noise-scale)",
    "new_client": "the best score on clients left out of the training, unless ERM is better",
}
