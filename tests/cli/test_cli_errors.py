"""Each kind of bad input is one sentence, an exit code, and no run."""

import json
import re
from pathlib import Path

import pytest

from kit.program import THREE, drfl, heart_rows, write_csv


def edited(folder, line, old, new, file="b.csv"):
    path = folder / file
    lines = path.read_text().splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("\n".join(lines) + "\n")


def short_line(folder):
    lines = (folder / "b.csv").read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0]
    (folder / "b.csv").write_text("\n".join(lines) + "\n")


def column_of(folder, file, name, value):
    names, rows = heart_rows()
    at = names.index(name)
    rows = [[*row[:at], value(k, row[at]), *row[at + 1 :]] for k, row in enumerate(rows[:40])]
    write_csv(folder / file, names, rows)


def replaced(folder, file, name, new):
    path = folder / file
    path.write_text(path.read_text().replace(name, new, 1))


FILES = {
    "unreadable line": (short_line, ("b.csv, line 5", "13 values", "14 columns")),
    "unclosed quote": (
        lambda f: (f / "b.csv").write_text((f / "b.csv").read_text() + '"x,1\n'),
        ("b.csv, line 92", "cannot be read"),
    ),
    "not UTF-8": (
        lambda f: (f / "b.csv").write_bytes((f / "b.csv").read_bytes() + b"\xff\xfe,1\n"),
        ("b.csv, line", "UTF-8"),
    ),
    "infinite": (
        lambda f: column_of(f, "b.csv", "age", lambda k, v: "inf" if k == 5 else v),
        ("b.csv, line 7", "'age'", "not a finite number"),
    ),
    "missing": (
        lambda f: column_of(f, "b.csv", "age", lambda k, v: "" if k in (5, 9) else v),
        ("b.csv", "'age'", "lines 7, 11", "--missing drop, mean or indicator"),
    ),
    "missing text": (
        lambda f: column_of(f, "b.csv", "sex", lambda k, v: "NA" if k == 5 else v),
        ("b.csv", "'sex'", "line 7"),
    ),
    "missing target": (
        lambda f: column_of(f, "b.csv", "disease", lambda k, v: "" if k == 5 else v),
        ("b.csv", "'disease'", "line 7"),
    ),
    "another column": (
        lambda f: replaced(f, "b.csv", "thal", "thallium"),
        ("'thal' (not at 'b')", "'thallium' (not at 'a', 'c')", "--exclude thal,thallium"),
    ),
    "no target": (
        lambda f: replaced(f, "b.csv", "disease", "illness"),
        ("b.csv", "no column 'disease'"),
    ),
    "text in numbers": (
        lambda f: column_of(f, "b.csv", "thal", lambda k, v: "high" if k == 5 else v),
        ("'thal'", "numbers at client 'a'", "text at 'b'", "categorical"),
    ),
    "too many values": (
        lambda f: [
            column_of(f, file, "sex", lambda k, v: f"person {k}{k}") or doubled(f / file)
            for file in ("a.csv", "b.csv", "c.csv")
        ],
        ("'sex'", "more than 50 different values", "exclude"),
    ),
    "one class everywhere": (
        lambda f: [
            column_of(f, x, "disease", lambda k, v: "no") for x in ("a.csv", "b.csv", "c.csv")
        ],
        ("'disease'", "every row of every client", "two classes"),
    ),
    "labels of two kinds": (
        lambda f: column_of(f, "b.csv", "disease", lambda k, v: "1" if v == "yes" else "0"),
        ("'disease'", "numbers at client 'b'", "text at 'a'"),
    ),
    "no rows": (
        lambda f: (f / "b.csv").write_text((f / "b.csv").read_text().splitlines()[0] + "\n"),
        ("b.csv", "no rows"),
    ),
    "empty": (lambda f: (f / "b.csv").write_text(""), ("b.csv", "empty")),
    "no names": (
        lambda f: (f / "b.csv").write_text("1,2\n3,4\n"),
        ("b.csv, line 1", "name the columns"),
    ),
    "a name twice": (
        lambda f: replaced(f, "b.csv", "thal", "age"),
        ("b.csv, line 1", "two columns are called 'age'"),
    ),
    "no file": (lambda f: (f / "b.csv").unlink(), ("b.csv", "does not exist")),
}


def doubled(path):
    """Once more the same rows, with other persons."""
    lines = path.read_text().splitlines()
    more = [line.replace("person ", "person x") for line in lines[1:]]
    path.write_text("\n".join([*lines, *more]) + "\n")


@pytest.mark.parametrize("kind", FILES)
def test_a_bad_file(files, kind):
    spoil, words = FILES[kind]
    spoil(files)
    said = drfl("train", *THREE, "--out", "R", cwd=files, code=3)
    one_sentence(said.err, words)
    assert not (files / "R").exists()


BAD_SETTINGS = {
    "unknown loss": (("--loss", "hinje"), ("'hinje'", "did you mean 'hinge'")),
    "loss of another task": (("--loss", "huber"), ("'huber'", "not for classes")),
    "unknown norm": (("--norm", "l3"), ("'l3'", "known are")),
    "unknown solver": (("--solver", "magic"), ("'magic'", "known are")),
    "unknown method": (("--compare", "erm,fedmagic"), ("'fedmagic'", "known are")),
    "unknown rule": (("--select", "best"), ("'best'", "known are")),
    "scale without noise": (("--noise-scale", "0.3"), ("noise_scale is for --select noise",)),
    "solver of other losses": (("--solver", "first_order", "--loss", "hinge"), ("smooth losses",)),
    "noise without scale": (("--select", "noise"), ("--noise-scale",)),
    "unknown scale": (("--scale", "robust"), ("'robust'", "known are")),
    "negative radius": (("--radius", "-1"), ("radius must be",)),
    "no number": (("--radius", "small"), ("radius must be a number", "'small'")),
    "confidence of a kink": (("--radius", "confidence", "--loss", "hinge"), ("'hinge' has none",)),
    "radius of nobody": (("--radius", "x=1"), ("no entry for client 'a'",)),
    "tol": (("--tol", "0"), ("tol must be",)),
    "guard": (("--guard", "1"), ("--guard must be a whole number >= 2, got 1",)),
    "rounds": (("--max-rounds", "0"), ("max_rounds must be",)),
    "whole": (("--max-rounds", "2.5"), ("whole number",)),
    "intercept": (("--intercept", "maybe"), ("intercept", "shared")),
    "label cost": (("--label-cost", "0"), ("label_cost must be",)),
    "mixture norm": (("--mixture-norm", "3"), ("3",)),
    "center": (("--mixture-center", "0.5,0.5"), ("2 weights", "3 clients")),
    "privacy without its guard": (("--privacy-epsilon", "1"), ("privacy_epsilon", "--guard dp")),
    "ranges without it": (("--ranges", "age=0:120"), ("ranges is for", "--guard dp")),
    "more folds than rows": (("--select", "mean", "--folds", "91"), ("90 rows", "91 folds")),
    "folds": (("--folds", "1"), ("folds must be a whole number >= 2",)),
    "weight": (("--max-weight", "0.2"), ("max_weight must be at least",)),
    "epsilon": (("--epsilon", "1"), ("no epsilon",)),
    "outside": (("--support", "age=40:50"), ("line", "'age'", "outside its support")),
    "support of nothing": (("--support", "agee=40:50"), ("'agee'",)),
    "support upside down": (("--support", "age=50:40"), ("above",)),
    "target left out": (("--exclude", "disease"), ("target",)),
    "task": (("--task", "regression"), ("'disease'", "needs numbers")),
    "two with a name": (("--client", "x/a.csv"), ("two clients are called 'a'", "north=x/a.csv")),
    "resume": (("--resume", "nowhere"), ("--resume",)),
}


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_a_bad_setting(trained, tmp_path, kind):
    flags, words = BAD_SETTINGS[kind]
    out = tmp_path / "R"
    said = drfl("train", *THREE, *flags, "--out", out, cwd=trained, code=3)
    one_sentence(said.err, words)
    assert not out.exists()


TOMLS = {
    "no TOML": ("target = \n", ("s.toml", "not TOML")),
    "unknown setting": ('targt = "disease"\n', ("'targt'", "did you mean 'target'")),
    "no clients": ('target = "disease"\n', ("no client", "--client")),
    "clients of another type": ('clients = ["a.csv"]\n', ("[clients]",)),
    "no target": ('[clients]\na = "a.csv"\n', ("no target",)),
    "type": ('target = "disease"\ntol = "x"\n[clients]\na = "a.csv"\n', ("tol must be",)),
}


@pytest.mark.parametrize("kind", TOMLS)
def test_a_bad_settings_file(files, kind):
    text, words = TOMLS[kind]
    (files / "s.toml").write_text(text)
    one_sentence(drfl("train", "s.toml", cwd=files, code=3).err, words)


USAGE = {
    "no such command": (("trian",), "invalid choice"),
    "no such flag": (("train", "--radios", "1"), "unrecognized"),
    "too little": (("predict", "model.json"), "required"),
}


@pytest.mark.parametrize("kind", USAGE)
def test_a_wrong_command_line(tmp_path, kind):
    arguments, words = USAGE[kind]
    one_sentence(drfl(*arguments, cwd=tmp_path, code=2).err, (words, "--help"))


def test_files_are_clients_with_and_without_a_word_before_them(files):
    (files / "s.toml").write_text('target = "nothing"\n')
    named = ("--client", "a.csv", "--client", "south=b.csv", "--target", "nothing")
    said = drfl("train", *named, cwd=files, code=3).err
    one_sentence(said, ("'nothing'", "a.csv", "b.csv"))
    assert drfl("train", "a.csv", "south=b.csv", "s.toml", cwd=files, code=3).err == said
    one_sentence(drfl("train", "s.toml", "t.toml", cwd=files, code=3).err, ("one of them",))


def other_columns(folder):
    write_csv(folder / "new.csv", ["age", "sex"], [["40", "m"]])


def other_class(folder):
    names, rows = heart_rows()
    rows[3][-1] = "perhaps"
    write_csv(folder / "new.csv", names, rows)


def word_for_number(folder):
    names, rows = heart_rows()
    rows[3][0] = "old"
    write_csv(folder / "new.csv", names, rows)


@pytest.mark.parametrize(
    ("command", "spoil", "words"),
    [
        ("predict", other_columns, ("new.csv", "no columns 'chest_pain_type', 'resting_blood")),
        ("predict", word_for_number, ("new.csv", "'age'", "'old' in line 5")),
        ("evaluate", other_class, ("new.csv, line 5", "'disease'", "no, yes")),
        ("explain", other_columns, ("new.csv", "no column")),
        ("predict", lambda f: None, ("new.csv", "does not exist")),
    ],
)
def test_a_bad_file_for_a_model(trained, tmp_path, command, spoil, words):
    spoil(tmp_path)
    model = trained / "RUN" / "model.json"
    said = drfl(command, model, tmp_path / "new.csv", cwd=tmp_path, code=3)
    one_sentence(said.err, words)


@pytest.mark.parametrize("command", ["predict", "evaluate", "explain"])
def test_a_bad_model(trained, tmp_path, command):
    text = (trained / "RUN" / "model.json").read_text()
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    said = drfl(command, "cut.json", trained / "a.csv", cwd=tmp_path, code=3)
    one_sentence(said.err, ("cut.json", "cut off"))
    one_sentence(drfl(command, "no.json", "a.csv", cwd=tmp_path, code=3).err, ("does not exist",))


def test_a_report_needs_a_run(files):
    one_sentence(drfl("report", "nowhere", cwd=files, code=3).err, ("nowhere",))


def test_warnings_come_before_the_training(files):
    column_of(files, "b.csv", "disease", lambda k, v: "no")
    for file in ("a.csv", "b.csv", "c.csv"):
        column = read_names(files / file).index("thal")
        lines = (files / file).read_text().splitlines()
        rows = [line.split(",") for line in lines[1:]]
        rows = [[*row[:column], "3", *row[column + 1 :]] for row in rows]
        write_csv(files / file, lines[0].split(","), rows)
    said = drfl("train", *THREE, "--out", "R", "--tol", "1e-3", cwd=files)
    assert "client 'b' has rows of one class only, 'no'" in said.err
    assert "column 'thal' is the same in every row: it is left out" in said.err
    model = json.loads((files / "R" / "model.json").read_text())
    assert "thal" not in [column["name"] for column in model["columns"]]


def read_names(path):
    return path.read_text().splitlines()[0].split(",")


def test_rows_that_are_shown_are_counted(trained):
    asked = ("explain", "RUN/model.json", "a.csv", "--rows", "-3")
    one_sentence(drfl(*asked, cwd=trained, code=3).err, ("--rows must be a whole number >= 1",))


def test_debug_shows_where(files):
    import subprocess

    from kit.program import command, environment

    done = subprocess.run(
        command("train", *THREE, "--loss", "x", "--debug"),
        cwd=files,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3
    assert "Traceback" in done.stderr


PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
KNOWN = [re.compile(".*".join(map(re.escape, row.split("…")))) for row in ROWS]


def test_the_page_of_errors_is_read():
    assert len(KNOWN) > 60
    assert [row for row in KNOWN if row.fullmatch("nothing of the kind")] == []


def one_sentence(err, words):
    """The error is a line that has these words and is on the page of errors."""
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("drfl: ")
    message = lines[0].removeprefix("drfl: ")
    assert any(row.fullmatch(message) for row in KNOWN), message
    for word in words:
        assert word in lines[0], err
