"use strict";
// Charts as SVG. Text from data enters the page through textContent alone.
const Charts = (() => {
  const NS = "http://www.w3.org/2000/svg";

  function make(parent, tag, attributes = {}, text = null) {
    const svg = parent instanceof SVGElement || tag === "svg";
    const node = svg ? document.createElementNS(NS, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function short(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e5 || size < 1e-3 ? value.toExponential(1).replace(".0e", "e") : String(+value.toPrecision(4));
    return text.replace("-", "−");
  }

  // Round numbers that cover an interval; one alone would tell no scale.
  function ticks(low, high, wanted) {
    const raw = (high - low) / wanted;
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
    return found.length > 1 || wanted > 50 ? found : ticks(low, high, 2 * wanted);
  }

  function powers(low, high, wanted) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / wanted));
    const found = [];
    for (let k = first; k <= last; k += step) found.push(Math.pow(10, k));
    return found.length ? found : [low];
  }

  function scale(low, high, from, to, log) {
    const f = log ? Math.log10 : (v) => v;
    const a = f(low), b = f(high), width = b - a || 1;
    return (value) => from + ((f(value) - a) / width) * (to - from);
  }

  function extent(values, log) {
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    if (log) return [low, high];
    const room = 0.04 * (high - low);
    return [low - room, high + room];
  }

  function cut(text, room) {
    const most = Math.max(4, Math.floor(room / 7.2));
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
  }

  function legend(figure, series) {
    const box = make(figure, "div", { class: "legend" });
    series.forEach((line, k) => {
      const item = make(box, "span");
      make(item, "i", { class: `k${k}${line.dashed ? " dashed" : ""}` });
      item.append(line.name);
    });
  }

  function lines(figure, spec, width, tip) {
    const left = 58, right = 12, top = 10, bottom = 40, height = Math.min(300, 190 + width / 6);
    const points = spec.series.flatMap((line) => line.points);
    let [y0, y1] = extent([...points.map((p) => p[1]), ...spec.band.flatMap((b) => [b[1], b[2]])], spec.log);
    if (spec.bars.length) y0 -= 0.25 * (y1 - y0);  // room below the lines
    let [x0, x1] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    const x = scale(x0, x1, left, width - right), y = scale(y0, y1, height - bottom, top, spec.log);
    if (spec.series.length > 1) legend(figure, spec.series);
    const svg = make(figure, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
    for (const v of spec.log ? powers(y0, y1, 6) : ticks(y0, y1, 5)) {
      make(svg, "line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) });
      make(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v));
    }
    const marks = spec.labels.length ? spec.labels.map((_, k) => k) : ticks(x0, x1, Math.max(3, width / 110));
    for (const v of marks) {
      const label = spec.labels.length ? spec.labels[v] : short(v);
      make(svg, "text", { x: x(v), y: height - bottom + 17, "text-anchor": "middle" }, label);
    }
    make(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, cut(spec.x, width - left));
    if (spec.band.length) {
      const there = spec.band.map((b) => `${x(b[0]).toFixed(1)} ${y(b[2]).toFixed(1)}`);
      const back = spec.band.map((b) => `${x(b[0]).toFixed(1)} ${y(b[1]).toFixed(1)}`).reverse();
      make(svg, "path", { class: "band", d: `M${[...there, ...back].join("L")}Z` });
    }
    const most = Math.max(...spec.bars.map((b) => b[2]), 1);
    for (const [from, to, rows] of spec.bars) {
      const tall = (0.18 * (height - top - bottom) * rows) / most;
      make(svg, "rect", { class: "rows", x: x(from) + 0.5, y: height - bottom - tall, width: Math.max(x(to) - x(from) - 1, 1), height: tall });
    }
    spec.series.forEach((line, k) => {
      const d = line.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
      const path = make(svg, "path", { class: `line s${k}${line.dashed ? " dashed-line" : ""}`, d });
      path.style.fill = "none";
      if (line.points.length <= 40) {
        for (const p of line.points) make(svg, "circle", { class: `s${k}`, cx: x(p[0]), cy: y(p[1]), r: 2.6 });
      }
    });
    const cursor = make(svg, "line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
    const area = make(svg, "rect", { x: left, y: top, width: width - left - right, height: height - top - bottom, fill: "transparent" });
    const places = [...new Set(points.map((p) => p[0]))].sort((a, b) => a - b);
    area.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) * width) / box.width;
      const near = places.reduce((a, b) => (Math.abs(x(b) - at) < Math.abs(x(a) - at) ? b : a));
      cursor.setAttribute("x1", x(near));
      cursor.setAttribute("x2", x(near));
      cursor.setAttribute("visibility", "visible");
      const head = `${spec.x}: ${spec.labels.length ? spec.labels[near] : short(near)}`;
      const rows = spec.series.flatMap((line) =>
        line.points.filter((p) => p[0] === near).map((p) => `${line.name}: ${+p[1].toPrecision(6)}`));
      const under = spec.bars.find((b) => b[0] <= near && near <= b[1]);
      tip.show([head, ...rows, ...(under ? [`rows from ${short(under[0])} to ${short(under[1])}: ${under[2]}`] : [])].join("\n"), event);
    });
    area.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      tip.hide();
    });
  }

  function marks(figure, spec, width, tip) {
    const step = 24, top = 6, bottom = 26;
    const right = spec.bars ? 12 + 6.8 * Math.max(...spec.rows.map((row) => row.shown.length)) : 14;
    const longest = Math.max(...spec.rows.map((row) => row.label.length));
    const left = Math.min(longest * 7.4 + 14, width * 0.38);
    const height = top + spec.rows.length * step + bottom;
    const values = spec.rows.flatMap((row) => [row.value, row.low, row.high, ...row.dots.map((d) => d[0])]);
    if (spec.zero) values.push(0);
    let [x0, x1] = extent(values.filter((v) => v !== null), false);
    if (spec.bars && x0 < 0 && Math.min(...values.filter((v) => v !== null)) >= 0) x0 = 0;
    const x = scale(x0, x1, left, width - right);
    const svg = make(figure, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
    for (const v of ticks(x0, x1, Math.max(2, (width - left) / 95))) {
      make(svg, "line", { class: "grid", x1: x(v), x2: x(v), y1: top, y2: height - bottom });
      make(svg, "text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, short(v));
    }
    spec.rows.forEach((row, k) => {
      const y = top + (k + 0.5) * step;
      const hit = make(svg, "rect", { class: "hit", x: 0, y: y - step / 2, width, height: step });
      make(svg, "text", { class: "label", x: left - 8, y: y + 4, "text-anchor": "end" }, cut(row.label, left - 8));
      const parts = [hit];
      if (row.low !== null) parts.push(make(svg, "line", { class: "range", x1: x(row.low), x2: x(row.high), y1: y, y2: y }));
      if (spec.bars) {
        const [a, b] = [x(Math.min(0, row.value)), x(Math.max(0, row.value))];
        parts.push(make(svg, "rect", { class: "bar", x: a, y: y - 7, width: Math.max(b - a, 1), height: 14, rx: 3 }));
        parts.push(make(svg, "text", { class: "value", x: b + 6, y: y + 4 }, row.shown));
      } else if (row.dots.length) {
        for (const dot of row.dots) parts.push(make(svg, "circle", { class: "dot", cx: x(dot[0]), cy: y, r: 4.5 }));
        parts.push(make(svg, "line", { class: "mean", x1: x(row.value), x2: x(row.value), y1: y - 8, y2: y + 8 }));
      } else {
        parts.push(make(svg, "circle", { class: "mark", cx: x(row.value), cy: y, r: 4.5 }));
      }
      const text = [`${row.label}: ${row.shown}`, ...row.dots.map((d) => d[1]).filter((d) => d)].join("\n");
      for (const part of parts) {
        part.addEventListener("pointermove", (event) => tip.show(text, event));
        part.addEventListener("pointerleave", () => tip.hide());
      }
    });
    if (spec.zero && x0 < 0) make(svg, "line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: height - bottom });
  }

  const kinds = { lines, marks };

  // Draws a chart anew: the caption and notes of the figure stay.
  function draw(figure, spec, width, tip) {
    for (const old of figure.querySelectorAll("svg, .legend")) old.remove();
    kinds[spec.kind](figure, spec, width, tip);
  }

  return { draw };
})();
