"""What the page holds: the questions in their order, nothing raw from data, no more than 1 MB."""

import json
import re
from html.parser import HTMLParser

import pytest
from report_kit import EVIL, run_records, write_run

import drfl
from drfl.report import write
from drfl.report.blocks import MOST_ROWS, Lines, Marks, Series, TableBlock, numbers_of
from drfl.report.evidence import Evidence, clipped, name, number, thinned, vector
from drfl.report.page import LARGEST, embedded, page
from drfl.report.questions import QUESTIONS, coefficients
from drfl.report.suppression import Groups

ORDER = [
    "proof",
    "unseen",
    "clients",
    "coefficients",
    "protection",
    "radius",
    "course",
    "messages",
    "repeat",
]
KINDS = sorted({record["kind"] for record in run_records()} - {"result"})


class Page(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, source):
        super().__init__()
        self.source, self.tags, self.sections, self.words = source, [], [], ""
        self.is_code = False
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.is_code = tag in ("script", "style")
        if tag == "section":
            self.sections.append(dict(attrs)["id"])

    def handle_endtag(self, tag):
        self.is_code = False

    def handle_data(self, data):
        self.words += "" if self.is_code else data.replace("\u00a0", " ")

    @property
    def charts(self):
        found = re.search(r'id="charts">(.*?)</script>', self.source, re.DOTALL)
        return json.loads(found[1])


def made(folder, records):
    return Page(write(write_run(folder, records)).read_text(encoding="utf-8"))


def test_the_questions_are_answered_in_their_order(tmp_path):
    found = made(tmp_path, run_records())
    assert found.sections == ORDER
    for said in (
        "no model of this kind has less than 0.3972",
        "the worst served is south with 75.0 %",
        "bootstrap percentile intervals: the middle 90 % of 30 refits",
        "By the rule mean: radius 0.05 has the best mean score",
        "In 12 rounds, with 18.0 kB from the clients",
        "evaluate/reply",
        "cuts (3 × 4)",
        "drfl 0.1.0, seed 7",
    ):
        assert said in found.words


def test_coefficients_are_in_the_units_of_the_files(tmp_path):
    charts = [c for c in made(tmp_path, run_records()).charts if "Coefficients" in c["title"]]
    original, scaled = ({row["label"]: row for row in chart["rows"]} for chart in charts)
    assert original["age"]["value"] == pytest.approx(0.5 / 10.0)
    assert original["pressure"]["value"] == pytest.approx(-0.25 / 20.0)
    assert scaled["pressure"]["value"] == -0.25
    assert original["pressure"]["low"] == pytest.approx(-0.5 / 20.0)
    words = made(tmp_path, run_records()).words
    assert "intercept" in words
    assert f"−{abs(0.1 - 0.5 * 5.0 + 0.25 * 6.0):.4g}" in words


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_absent_costs_its_part_alone(tmp_path, kind):
    records = [record for record in run_records() if record["kind"] != kind]
    assert made(tmp_path, records).sections == ORDER


def test_a_result_is_enough(tmp_path):
    records = [record for record in run_records() if record["kind"] == "result"]
    found = made(tmp_path, records)
    assert found.sections == ORDER
    # Nobody knows how many rows the clients have: nothing is told of them.
    assert "85.0 %" not in found.words
    assert "0.38" not in found.words


@pytest.mark.parametrize("value", [None, "x", [], {}, 1e999, -1, "nan", [[1]], {"north": {}}, True])
@pytest.mark.sampled(2)
def test_damaged_records_make_a_page_with_less(value):
    fields = {(r["kind"], f): (at, f) for at, r in enumerate(run_records()) for f in r}
    for (_, field), (at, _) in fields.items():
        records = run_records()
        records[at][field] = value
        sections = sections_of(records)
        assert [section.id for section in sections] == ORDER
        for block in (block for section in sections for block in section.blocks):
            if isinstance(block, Lines | Marks):
                embedded(block.data())  # refuses what is not finite


def sections_of(records):
    evidence = Evidence(records)
    sections = [ask(evidence, Groups(evidence)) for ask in QUESTIONS]
    return [section for section in sections if section is not None]


def page_of(records):
    return page(sections_of(records))


def test_nothing_from_data_is_raw(tmp_path):
    hostile, plain = made(tmp_path / "a", run_records(EVIL)), made(tmp_path / "b", run_records())
    # The same tags with the same attributes, whatever the names are.
    assert hostile.tags == plain.tags
    assert hostile.source.count("<") == plain.source.count("<")
    assert "&lt;/script&gt;" in hostile.source
    assert "\\u003c/script" in hostile.source
    assert "onerror" in hostile.words


def test_nothing_is_linked_but_the_page_itself(tmp_path):
    found = made(tmp_path, run_records(EVIL))
    links = [a["href"] for _, a in found.tags if "href" in a]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not [attrs for _, attrs in found.tags if "src" in attrs or "style" in attrs]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", found.source)
    assert "default-src 'none'" in found.source


def test_embedded_json_is_json_and_has_no_tags():
    data = {"a": "</script><!--\u2028&", "b": [1.5, None]}
    text = embedded(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028") & set(text)


def test_a_large_run_stays_below_a_megabyte():
    # Everything is beyond its limit: clients, classes, columns, models, rounds, names.
    names = [f"{k}{'<' * 80}" for k in range(400)]
    records = [record for record in run_records() if record["kind"] in ("start", "problem")]
    rows = dict.fromkeys(names, 50)
    told = {"rows": rows, "classes": names[:40], "bytes_up": rows}
    counts = {client: [9] * 40 for client in names}
    records.append({"kind": "preflight", "class_counts": counts, **told})
    records.append({"kind": "settings", "exclude": names})
    model = {"coef": [0.123456789] * 400, "weights": dict.fromkeys(names, 0.0025)}
    model |= {"losses": dict.fromkeys(names, 0.123456789), "gap": 0.1, "intercept": 0.5}
    scores = {client: {"accuracy": 0.123456789, "auc": 0.5} for client in names}
    result = {"kind": "result", "clients": scores, "features": names, "models": [model] * 40}
    records += [result, *({**result, "kind": "comparison", "method": n} for n in names[:60])]
    ends = {"low": [-1.23456789] * 400, "high": [1.23456789] * 400, "refits": 30, "level": 0.9}
    records += [{"kind": "bootstrap", "model": k, **ends} for k in range(40)]
    moves = dict.fromkeys(names, 0.123456789)
    for client in names:
        records.append({"kind": "adversary", "client": client, "scaled_moves": moves})
        message = {"kind": "messages", "client": client, "message": client, "arrays": moves}
        records += [message, {"kind": "row", "client": client, "row": 1, "change": client * 9}]
    point = {"params": {n: n for n in names[:5]}, "note": names[0] * 9}
    point |= {"mean": 0.123456789, "client_scores": dict.fromkeys(names, 0.123456789)}
    records.append({"kind": "selection", "reason": names[0] * 9, "table": [point] * 400})
    bounds = {"objective": 0.123456789, "lower_bound": 0.0123456789, "gap": 0.123456789}
    records += [{"kind": "round", "model": k % 40, "round": k, **bounds} for k in range(10_000)]
    assert LARGEST / 4 < len(page_of(records).encode()) <= LARGEST


def test_without_a_script_every_chart_has_a_table_in_its_place():
    text = page_of(run_records())
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    charts = Page(text).charts
    assert len(figures) == len(charts) > 10
    for figure, chart in zip(figures, charts, strict=True):
        table = re.search(r"<noscript>(.*)</noscript>", figure, re.DOTALL)[1]
        rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
        if chart["kind"] == "marks":
            assert rows == [[row["label"], row["shown"]] for row in chart["rows"]]
        else:
            assert len(rows) == max(len(line["points"]) for line in chart["series"])
            last = chart["series"][0]["points"][-1][1]
            assert float(rows[-1][1].replace("−", "-")) == pytest.approx(last, rel=1e-3)
    # Without a script the button would do nothing.
    assert '<button type="button" id="theme" hidden>' in text


def test_tables_say_what_they_leave_out():
    table = TableBlock("many", ["a"], [["x"]] * (MOST_ROWS + 3))
    assert len(table.shown) == MOST_ROWS
    assert table.left_out == "3 more rows are not shown"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not finished"),
        ("{", "damaged"),
        ("[1]", "something else"),
        ('{"kind": "start"}', "is not finished"),
        ("[" * 100_000, "damaged"),
    ],
)
@pytest.mark.sampled(2)
def test_a_file_that_is_no_record_of_a_run_is_refused(tmp_path, text, told):
    (tmp_path / "records.jsonl").write_text(text)
    with pytest.raises(ValueError, match=told):
        write(tmp_path)
    with pytest.raises(ValueError, match="name the folder of a run"):
        drfl.report.write(tmp_path / "nowhere")


def test_what_is_read_is_checked():
    assert number(10**400) is None
    assert vector([1, "nan"]) == []
    assert name("a\u202eb\nc") == "a b c"
    assert clipped("x" * 9, 9) == "x" * 9
    assert thinned(range(1000), 3) == [0, 500, 999]


@pytest.mark.parametrize(
    ("radius", "theta", "told"),
    [
        (0.05, 0.2, "(a label changes at the cost 2), and against weights of the clients that"),
        (0.05, "inf", "and against weights of the clients that are as bad as can be."),
        (0.05, 0.0, "at the cost 2). As they are it takes the weights of the clients."),
        (0.0, 0.2, "Against weights of the clients that differ by 0.2 in all. As they are it"),
        (0.0, 0.0, "As they are it takes the rows and the weights of the clients."),
    ],
)
def test_what_is_trusted_is_said(radius, theta, told):
    records = run_records()
    problem = next(r for r in records if r["kind"] == "problem")
    problem["ball"]["radius"], problem["mixture"]["radius"] = radius, theta
    assert told in Page(page_of(records)).words


def test_what_was_sent_for_other_purposes_is_said():
    words = Page(page_of(run_records())).words
    assert "choice of the radius has sent the same kinds of messages before" in words
    assert "The comparison with erm sent 21.6 kB more, both ways." in words
    records = [r for r in run_records() if r["kind"] not in ("selection", "comparison")]
    words = Page(page_of(records)).words
    assert "has sent the same kinds" not in words
    assert "more, both ways" not in words


def test_a_column_that_counts_most_and_is_mostly_filled_is_told_of():
    cells = [
        {"column": column, "client": client, "missing": missing, "shares": None}
        for column, client, missing in (("ca", "va", 0.99), ("ca", "basel", 0.01), ("age", "va", 0))
    ]
    rows = {"va": 200, "basel": 123}
    records = [
        {"kind": "preflight", "rows": rows, "table": cells},
        {
            "kind": "result",
            "features": ["age", "ca"],
            "models": [{"coef": [0.2, 0.9], "intercept": 0.0}],
        },
    ]
    evidence = Evidence(records)
    found = coefficients.section(evidence, Groups(evidence))
    assert "most by ca, age" in found.answer
    warned = [block.text for block in found.blocks if getattr(block, "tone", "") == "warning"]
    assert warned == ["ca has no value in 99.0\xa0% of the rows of va: its mean stands there."]


def test_places_below_0_are_numbers_of_a_chart():
    chart = Lines("a curve", "age", "score", [Series("s", [(-1.7, 0.5), (0.2, 1.0)])])
    assert [row[0] for row in numbers_of(chart).rows] == ["−1.7", "0.2"]
    named = Lines("rounds", "", "gap", [Series("s", [(0, 0.5), (1, 1.0)])], labels=("a", "b"))
    assert [row[0] for row in numbers_of(named).rows] == ["a", "b"]
