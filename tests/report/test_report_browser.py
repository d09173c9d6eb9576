"""Reports in a real browser: drawn, quiet, offline, readable on a phone, on paper, by night."""

import base64

import pytest
from report_kit import EVIL, run_records, write_run

from drfl.report import write

CHARTS = "[...document.querySelectorAll('figure.chart')]"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return write(write_run(tmp_path_factory.mktemp("plain"), run_records()))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write(write_run(tmp_path_factory.mktemp("hostile"), run_records(EVIL)))


CURVE = {
    "model": 0,
    "name": f"age{EVIL}",
    "rules": ["increasing"],
    "x": [30.0, 40.0, 50.0, 60.0],
    "y": [-0.4, -0.1, 0.0, 0.6],
    "knots": [40.0, 50.0],
    "line": [-0.5, -0.25, 0.0, 0.25],
    "rows": [12, 40, 8],
    "band": {
        "x": [30.0, 40.0, 50.0, 60.0],
        "y": [-0.5, -0.2, 0.0, 0.8],
        "low": [-1.5, -0.4, 0.0, -0.4],
        "high": [0.5, 0.0, 0.0, 2.0],
    },
}


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    records = run_records()
    next(r for r in records if r["kind"] == "result")["curves"] = [CURVE]
    about = next(r for r in records if r["kind"] == "preflight")
    about["rows"] = {client: max(20, rows) for client, rows in about["rows"].items()}
    return write(write_run(tmp_path_factory.mktemp("curved"), records))


@pytest.fixture
def tab(browser, plain):
    return browser.open(plain)


# Parametrised fixtures instead of marks: where all is skipped, the summary has one line for it.
HOVERED = {
    "#clients .bar": "north: 85.0\u00a0%",
    "#coefficients .mark": "age: 0.05 (0.03 to 0.07)",
    "#course svg > rect": "upper bound: ",
    "#clients .mean": "mean 80.0\u00a0%",
}


@pytest.fixture(params=HOVERED)
def place(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["light", "dark"])
def dark(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "hostile"])
def is_hostile(request):
    return request.param


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    def method(mean):
        own = {"north": mean - 0.1, "south": mean + 0.1}
        return {"accuracy": {"mean": mean, "low": mean - 0.2, "high": mean + 0.2, "clients": own}}

    measures = {"new rows": {"majority": method(0.5), "model": method(0.7)}}
    records = [*run_records(), {"kind": "validation", "measures": measures}]
    about = next(r for r in records if r["kind"] == "preflight")
    about["rows"] = {client: max(20, rows) for client, rows in about["rows"].items()}
    return write(write_run(tmp_path_factory.mktemp("judged"), records))


def test_an_interval_is_drawn_also_where_dots_are(browser, judged):
    tab = browser.open(judged)
    widths = tab.run(
        "[...document.querySelectorAll('#unseen .range')].map(l => l.getBoundingClientRect().width)"
    )
    assert len(widths) == 2
    assert min(widths) > 20
    assert tab.run("document.querySelectorAll('#unseen .dot').length") >= 2


def test_every_chart_is_drawn(tab):
    assert tab.run(f"{CHARTS}.length") >= 11
    # A chart has its grid and something on it, inside its own box.
    assert tab.run(f"{CHARTS}.every(f => f.querySelectorAll('svg').length === 1)")
    shapes = "f.querySelectorAll('.line, .bar, .mark, .dot').length"
    assert tab.run(f"Math.min(...{CHARTS}.map(f => {shapes}))") >= 1
    sizes = "f.querySelector('svg').getBoundingClientRect()"
    assert tab.run(f"{CHARTS}.every(f => {sizes}.width > 250 && {sizes}.height > 30)")
    bad = "/NaN|undefined|Infinity/.test(f.querySelector('svg').outerHTML)"
    assert tab.run(f"{CHARTS}.filter(f => {bad}).length") == 0


def test_numbers_are_where_they_belong(tab):
    # The forest plot: zero, the ends of an interval and its coefficient, in the order of numbers.
    forest = "[...document.querySelectorAll('#coefficients figure')][1]"
    first = "f.querySelector('.mark').cx.baseVal.value"
    line = "f.querySelector('.range')"
    ends = f"{line}.x1.baseVal.value, {first}, {line}.x2.baseVal.value"
    zero = "f.querySelector('.zero').x1.baseVal.value"
    z, low, mark, high = tab.run(f"(f => [{zero}, {ends}])({forest})")
    assert z < low < mark < high
    assert (mark - z) / (high - z) == pytest.approx(0.5 / 0.7, rel=1e-6)
    assert (low - z) / (high - z) == pytest.approx(0.3 / 0.7, rel=1e-6)


def test_a_legend_has_the_colours_of_its_lines(tab):
    color = "getComputedStyle(f.querySelectorAll"
    pairs = f"[{color}('.legend i')[k]).borderTopColor, {color}('path.line')[k]).stroke]"
    pairs = f"[...f.querySelectorAll('.legend i')].map((_, k) => {pairs})"
    found = tab.run(f"{CHARTS}.filter(f => f.querySelector('.legend')).flatMap(f => {pairs})")
    assert len(found) >= 8
    assert all(one == other for one, other in found)
    assert len({one for one, _ in found}) >= 3


def test_the_browser_has_nothing_to_complain_about(tab):
    assert tab.complaints() == []


def test_nothing_is_fetched(tab):
    assert tab.requests() == []
    # Nor could it be: the policy of the page forbids it.
    tab.run("(new Image()).src = 'https://example.org/x.png'; 1")
    tab.run("fetch('https://example.org/').catch(() => 1); 1")
    assert any("Content Security Policy" in str(entry) for entry in tab.complaints())


def test_hovering_tells_the_numbers(tab, place):
    assert tab.run("document.getElementById('tip').hidden")
    tab.hover(f"document.querySelector('{place}')")
    assert HOVERED[place] in tab.run("document.getElementById('tip').innerText")
    inside = "r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight"
    box = "document.getElementById('tip').getBoundingClientRect()"
    assert tab.run(f"(r => {inside})({box})")
    tab.hover("document.querySelector('h1')")
    assert tab.run("document.getElementById('tip').hidden")


def test_the_theme_is_that_of_the_system_until_it_is_switched(browser, plain, dark):
    tab = browser.open(plain, dark=dark)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    ink = (
        "getComputedStyle(document.querySelector('svg .label')).fill.match(/\\d+/g).map(Number)[0]"
    )
    for is_dark in (dark, not dark, dark):
        assert (tab.run(brightness) < 60) == is_dark
        assert (tab.run(ink) > 200) == is_dark
        assert tab.run("document.getElementById('theme').innerText") == (
            "Light" if is_dark else "Dark"
        )
        tab.click("document.getElementById('theme')")


def test_nothing_overflows_on_a_phone(browser, plain, hostile, is_hostile):
    tab = browser.open(hostile if is_hostile else plain, width=390, height=844)
    assert tab.run("innerWidth") == 390
    assert tab.run("document.documentElement.scrollWidth") == 390
    # Tables scroll in boxes of their own; whatever else there is ends within the screen.
    outside = "e.getBoundingClientRect().right > 390.5 && !e.closest('.wide')"
    shown = "[...document.querySelectorAll('body *')].filter(e => e.id !== 'tip')"
    assert tab.run(f"{shown}.filter(e => {outside}).map(e => e.outerHTML.slice(0, 200))") == []
    assert tab.run("parseFloat(getComputedStyle(document.querySelector('.note')).fontSize)") >= 12
    tab.resize(800, 600)
    fits = "Math.abs(f.querySelector('svg').viewBox.baseVal.width - f.clientWidth) <= 1"
    later = f"new Promise(done => setTimeout(() => done({CHARTS}.every(f => {fits})), 100))"
    assert tab.run(later)


def test_hostile_names_stay_text(browser, hostile):
    tab = browser.open(hostile)
    assert tab.complaints() == []
    assert tab.requests() == []
    assert tab.run("document.title") == "A distributionally robust federated model"
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("document.querySelectorAll('script').length") == 2
    assert tab.run("document.querySelector('#clients td').innerText") == f"north{EVIL}"[:47] + "…"
    label = tab.run("document.querySelector('#clients svg .label').textContent")
    assert label.startswith("north</scrip")
    tab.hover("document.querySelector('#clients .bar')")
    assert EVIL[:40] in tab.run("document.getElementById('tip').innerText")
    assert tab.run("document.getElementById('tip').children.length") == 0


WATCH = """
window.seen = [];
addEventListener('beforeprint', () => {
  const widths = [...document.querySelectorAll('svg')].map((svg) => svg.viewBox.baseVal.width);
  const folded = document.querySelectorAll('details:not([open])').length;
  window.seen.push([folded, Math.min(...widths), Math.max(...widths)]);
});
"""


def test_it_can_be_printed(tab):
    tab.scheme("dark", media="print")
    color = "getComputedStyle(document.body).backgroundColor"
    assert tab.run(color) == "rgb(255, 255, 255)"
    assert tab.run("getComputedStyle(document.getElementById('theme')).display") == "none"
    assert tab.run("document.querySelectorAll('details:not([open])').length") > 0
    tab.run(WATCH)
    page = base64.b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
    assert page.startswith(b"%PDF")
    assert len(page) > 20_000
    # Two charts side by side, or one over the whole page.
    assert tab.run("window.seen") == [[0, 330, 680]]
    assert tab.run("document.querySelectorAll('details[open]').length") == 0


def test_a_curve_has_its_band_and_its_rows(browser, curved):
    """The band is around its curve, bars are as high as rows are many, and all is in the box."""
    tab = browser.open(curved)
    figure = "document.querySelector('#curves figure')"
    assert tab.run(f"{figure}.querySelectorAll('path.line').length") == 3
    assert tab.run(f"{figure}.querySelectorAll('path.band').length") == 1
    tall = tab.run(f"[...{figure}.querySelectorAll('rect.rows')].map(r => r.height.baseVal.value)")
    assert tall[1] / tall[0] == pytest.approx(40 / 12, rel=1e-3)
    assert tall[1] / tall[2] == pytest.approx(40 / 8, rel=1e-3)
    box = "getBBox()"
    line, band = (
        tab.run(f"(b => [b.y, b.y + b.height])({figure}.querySelector('{which}').{box})")
        for which in ("path.s0", "path.band")
    )
    assert band[0] < line[0] < line[1] < band[1]
    view = tab.run(f"{figure}.querySelector('svg').viewBox.baseVal.height")
    assert 0.0 <= band[0] < band[1] <= view
    top = tab.run(
        f"Math.min(...[...{figure}.querySelectorAll('rect.rows')].map(r => r.y.baseVal.value))"
    )
    assert top > line[1]  # the rows are below the curves
    bad = "/NaN|undefined|Infinity/"
    assert not tab.run(f"{bad}.test({figure}.querySelector('svg').outerHTML)")
    assert "95 % band" in curved.read_text(encoding="utf-8")


def test_rows_of_few_people_are_not_drawn(tmp_path):
    records = run_records()
    few = CURVE | {"rows": [12, 40, 3]}
    next(r for r in records if r["kind"] == "result")["curves"] = [few]
    page = write(write_run(tmp_path, records)).read_text(encoding="utf-8")
    assert '"bars":[[' not in page
    assert "Bars at the bottom" not in page
