/* Draws the page of trine-report from the JSON in its element "data" (src/report/page.c writes it):
 *
 *   runs      [{path, steps, step: [], hours: [], tokens: [], loss: [], norm: [], lr: [], rate: [], skipped: [],
 *              val: [[step, tokens, hours, loss]], starts: [{after, run, resident, peak, planned}], checkpoints: [], resident,
 *              peak, planned}], the last three of the newest start; an earlier one is planned if its options are others
 *   planned   {ranks, bubble, idle, stages: [text], memory: {kinds, stages: [[bytes]]}, span,
 *              passes: a list a stage of start, length, kind, micro-batch, unit, chunk; unit: "s" of a machine's times;
 *              forecast: {step, parts, stages}, missing: why something is not there}
 *   trace     {layout, paths, ranks: [{rank, stage, place, state}], spans: a list a rank of start, length (us), kind, micro-batch, unit,
 *              flags (1: a wait, 2: unfinished, 4: an evaluation); steps: rank, start, length, step, flags;
 *              messages: from, to, sent, received; time: [{parts, steps, caused, own}], pairs: [[who, whom, us]], bubble}
 *
 *   samples   [{path, text, cut: the file is longer}]
 *
 * What is not there is not shown. Texts go into the page as text, never as HTML. */
(function () {
"use strict";

var data = JSON.parse(document.getElementById("data").textContent);
var root = document.getElementById("report");
/* For tests: where text was drawn in a canvas, as [canvas, text, x, y, width, height]. */
var drawn = [];
window.trineReport = { data: data, drawn: drawn };

/* ---- Elements and texts ---------------------------------------------------------------------- */

function el(tag, attributes) {
  var e = document.createElement(tag);
  Object.keys(attributes || {}).forEach(function (k) {
    if (k === "on") Object.keys(attributes.on).forEach(function (n) { e.addEventListener(n, attributes.on[n]); });
    else if (attributes[k] !== null && attributes[k] !== undefined) e.setAttribute(k, attributes[k]);
  });
  for (var n = 2; n < arguments.length; n++) {
    var child = arguments[n];
    (Array.isArray(child) ? child : [child]).forEach(function (c) {
      if (c === null || c === undefined) return;
      e.appendChild(typeof c === "object" ? c : document.createTextNode(String(c)));
    });
  }
  return e;
}

function known(x) { return x !== null && x !== undefined && isFinite(x); }
function digits(x, n) { return known(x) ? String(Number(x.toPrecision(n))) : "–"; }
function percent(x) { return known(x) ? (100 * x).toFixed(1) + "%" : "–"; }
function scaled(x, base, units) {
  var n = 0;
  while (Math.abs(x) >= base && n + 1 < units.length) { x /= base; n++; }
  return x.toPrecision(Math.abs(x) >= 100 ? 4 : 3).replace(/\.?0+$/, function (z) { return z[0] === "." ? "" : z; }) + units[n];
}
function count(x) { return known(x) ? Math.abs(x) < 1000 ? digits(x, 4) : scaled(x, 1000, ["", " k", " M", " G", " T"]) : "–"; }
function bytes(x) { return known(x) ? scaled(x, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : "–"; }
function micros(us) {
  if (!known(us)) return "–";
  var a = Math.abs(us);
  return a < 1000 ? digits(us, 3) + " µs" : a < 1e6 ? digits(us / 1000, 4) + " ms" : digits(us / 1e6, 4) + " s";
}
function sum(list) { return list.reduce(function (a, b) { return a + b; }, 0); }
function median(list) {
  var s = list.slice().sort(function (a, b) { return a - b; }), h = s.length >> 1;
  return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2;
}
function plural(n, word) { return n + " " + word + (n === 1 ? "" : "s"); }

function table(head, rows) {
  var body = el("tbody"), line = el("tr");
  head.forEach(function (h) { line.appendChild(el("th", { "class": h[1] || "" }, h[0])); });
  rows.forEach(function (r) {
    var tr = el("tr");
    r.forEach(function (c, n) { tr.appendChild(el("td", { "class": head[n][1] || "" }, c)); });
    body.appendChild(tr);
  });
  var box = el("div", { "class": "scroll" }, el("table", {}, el("thead", {}, line), body));
  return el("div", {}, box, el("p", { "class": "note sideways" }, "Wider than the window: scroll sideways →"));
}

/* Tables that are wider than the window say so, and take the keyboard, which then scrolls them. */
function mark_wide() {
  root.querySelectorAll(".scroll").forEach(function (box) {
    var wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("wide", wide);
    if (wide) box.setAttribute("tabindex", "0"); else box.removeAttribute("tabindex");
  });
}

/* Names of runs: without the folders that all have. */
function run_names(runs) {
  var base = runs.map(function (r) { return r.path.replace(/^.*\//, ""); });
  var distinct = new Set(base).size === base.length;
  return runs.map(function (r, n) { return distinct ? base[n] : r.path; });
}
var names = run_names(data.runs);

/* ---- Colours and patterns ---------------------------------------------------------------------- */

/* Okabe and Ito's, which people without some colour vision can tell apart; lighter ones on a dark ground. */
var light = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#555555"];
var dark = ["#4fb3f0", "#ff8a3d", "#2fd3a3", "#e9a3c9", "#f5b942", "#8fd0f7", "#f0e442", "#b9bec8"];
/* Of areas with text on them. */
var areas = ["#56b4e9", "#e69f00", "#35b58f", "#dd9cc0", "#f0e442", "#e8834a", "#7fa8d8", "#b9bec8"];
var lines = [null, [8, 4], [2, 3], [10, 3, 2, 3], [16, 4], [5, 2, 1, 2, 1, 2]];
var printing = false;

function is_dark() { return !printing && window.matchMedia("(prefers-color-scheme: dark)").matches; }
function colour(n) { return (is_dark() ? dark : light)[n % light.length]; }
function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/* Fills a rectangle with area colour n and texture k: none, stripes, lines, dots, crosses, steep stripes, grid. */
var tiles = {};
function texture(g, fill, k) {
  var key = fill + k;
  if (k === 0) return fill;
  if (tiles[key]) return tiles[key];
  var t = document.createElement("canvas"), c;
  t.width = t.height = 8;
  c = t.getContext("2d");
  c.fillStyle = fill;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = c.fillStyle = "rgba(0,0,0,0.42)";
  c.lineWidth = 1.3;
  c.beginPath();
  if (k === 1 || k === 4) { c.moveTo(-1, 9); c.lineTo(9, -1); c.moveTo(-1, 1); c.lineTo(1, -1); c.moveTo(7, 9); c.lineTo(9, 7); }
  if (k === 4 || k === 5) { c.moveTo(-1, -1); c.lineTo(9, 9); c.moveTo(7, -1); c.lineTo(9, 1); c.moveTo(-1, 7); c.lineTo(1, 9); }
  if (k === 2 || k === 6) { c.moveTo(0, 2); c.lineTo(8, 2); c.moveTo(0, 6); c.lineTo(8, 6); }
  if (k === 6) { c.moveTo(2, 0); c.lineTo(2, 8); c.moveTo(6, 0); c.lineTo(6, 8); }
  c.stroke();
  if (k === 3) { c.fillRect(1, 1, 2, 2); c.fillRect(5, 5, 2, 2); }
  tiles[key] = g.createPattern(t, "repeat");
  return tiles[key];
}

/* A canvas of width x height CSS pixels at the screen's resolution. */
function sized(canvas, width, height) {
  var ratio = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  var g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

function swatch(fill, k) {
  var canvas = el("canvas", { "class": "sample" });
  canvas.style.width = "22px";
  var g = sized(canvas, 22, 14);
  g.fillStyle = texture(g, fill, k);
  g.fillRect(0, 0, 22, 14);
  return canvas;
}

/* ---- Text in a canvas ----------------------------------------------------------------------------- */

function forget(canvas) {
  for (var n = drawn.length; n-- > 0;) if (drawn[n][0] === canvas) drawn.splice(n, 1);
}

/* Draws text unless it would lie on text that is there; x: its left end, or its middle. */
function label(g, canvas, text, x, y, size, middle) {
  var width = g.measureText(text).width, left = middle ? x - width / 2 : x;
  for (var n = drawn.length; n-- > 0;) {
    var d = drawn[n];
    if (d[0] !== canvas) continue;
    if (left < d[2] + d[4] + 2 && d[2] < left + width + 2 && y - size < d[3] + d[5] && d[3] < y) return false;
  }
  g.fillText(text, left, y);
  drawn.push([canvas, text, left, y - size, width, size]);
  return true;
}

/* ---- A tip under the pointer ----------------------------------------------------------------------- */

var tip = el("div", { "class": "tip", role: "status" });
function show_tip(event, text) {
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  var x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 6);
  var y = event.clientY + 16;
  if (y + tip.offsetHeight > window.innerHeight) y = event.clientY - tip.offsetHeight - 10;
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = Math.max(4, y) + "px";
}

/* ---- Curves ------------------------------------------------------------------------------------------ */

var axes = [["step", "steps", 0], ["tokens", "tokens", 1], ["hours", "hours of training", 2]];
var charts = [
  { of: "loss", title: "Loss (nats a token)", val: true, log: true },
  { of: "norm", title: "Gradient norm, before clipping", log: true },
  { of: "lr", title: "Learning rate" },
  { of: "rate", title: "Tokens a second" }
];
var curves = { x: 0, log: false, hidden: {}, plots: [], window: null };

/* Time is counted in what suits the longest run. */
var units = [["seconds", 3600], ["minutes", 60], ["hours", 1]];
var longest = Math.max.apply(null, [0].concat(data.runs.map(function (r) { return last(r.hours) || 0; })));
var unit = units[longest < 0.1 ? 0 : longest < 3 ? 1 : 2];
axes[2][1] = unit[0] + " of training";
data.runs.forEach(function (r) {
  r.hours = r.hours.map(function (h) { return h * unit[1]; });
  r.val.forEach(function (v) { v[2] *= unit[1]; });
});

/* The value of x at a step of a run. */
function x_at(run, step) {
  if (axes[curves.x][0] === "step") return step;
  var s = run.step, low = 0, high = s.length;
  while (low < high) {
    var middle = (low + high) >> 1;
    if (s[middle] <= step) low = middle + 1; else high = middle;
  }
  return low ? run[axes[curves.x][0]][low - 1] : 0;
}

/* A number that dygraphs draws: it widens ranges, and none may become infinite by that. */
function plotted(x) { return known(x) && Math.abs(x) < 1e100; }
/* Whether a series has a point: a log may have no tokens, or no numbers. */
function drawn_at(xs, ys) { return xs.some(function (x, n) { return plotted(x) && plotted(ys[n]); }); }

/* Series of a chart: name, run, xs, ys, dash, points. */
function series_of(chart) {
  var list = [];
  data.runs.forEach(function (run, n) {
    if (curves.hidden[n]) return;
    var xs = run[axes[curves.x][0]], ys = run[chart.of];
    if (drawn_at(xs, ys)) list.push({ name: names[n], run: n, xs: xs, ys: ys, dash: lines[n % lines.length] });
    if (!chart.val) return;
    xs = run.val.map(function (v) { return v[axes[curves.x][2]]; });
    ys = run.val.map(function (v) { return v[3]; });
    if (drawn_at(xs, ys)) list.push({ name: names[n] + ", validation", run: n, points: true, dash: [3, 3], xs: xs, ys: ys });
  });
  return list;
}

/* Rows of all series over the union of their x; null: no point of the series, NaN: a point without a number. */
function rows_of(list) {
  var all = new Set(), rows, at;
  list.forEach(function (s) { s.xs.forEach(function (x) { if (plotted(x)) all.add(x); }); });
  rows = Float64Array.from(all).sort();
  at = list.map(function () { return 0; });
  return Array.from(rows, function (x) {
    var row = [x];
    list.forEach(function (s, n) {
      while (at[n] < s.xs.length && !(s.xs[at[n]] >= x)) at[n]++;
      var here = at[n] < s.xs.length && s.xs[at[n]] === x;
      row.push(here ? plotted(s.ys[at[n]]) ? s.ys[at[n]] : NaN : null);
    });
    return row;
  });
}

/* Where runs were resumed and steps skipped, under the curves. */
function draw_marks(g, area, plot) {
  var seen = [], canvas = g.canvas;
  g.save();
  g.font = "11px system-ui, sans-serif";
  data.runs.forEach(function (run, n) {
    if (curves.hidden[n]) return;
    g.strokeStyle = g.fillStyle = colour(n);
    run.starts.forEach(function (s, k) {
      if (!k && !s.after) return;
      var x = plot.toDomXCoord(x_at(run, s.after));
      if (x < area.x || x > area.x + area.w) return;
      g.setLineDash([4, 4]);
      g.beginPath(); g.moveTo(x, area.y); g.lineTo(x, area.y + area.h); g.stroke();
      var text = k && s.run.layout && s.run.layout !== run.starts[k - 1].run.layout ? "now " + s.run.layout : "resumed", width = g.measureText(text).width;
      if (x + width + 4 > area.x + area.w) x -= width + 6;
      if (seen.every(function (o) { return Math.abs(o - x) > width + 8; })) { seen.push(x); g.fillText(text, x + 3, area.y + 11); }
    });
    g.setLineDash([]);
    run.skipped.forEach(function (step) {
      var x = plot.toDomXCoord(x_at(run, step)), y = area.y + area.h;
      if (x < area.x || x > area.x + area.w) return;
      g.beginPath(); g.moveTo(x - 4, y); g.lineTo(x + 4, y); g.lineTo(x, y - 8); g.fill();
    });
  });
  g.restore();
  void canvas;
}

function read_out(chart, list, plot) {
  return function (event, x, points) {
    var texts = [axes[curves.x][1] + " " + count(x)];
    points.forEach(function (p) {
      if (known(p.yval)) texts.push((list.length > 1 ? p.name + " " : "") + digits(p.yval, 6));
    });
    plot.textContent = texts.join("  ·  ");
  };
}

function zoom_to(range, except) {
  curves.window = range;
  curves.plots.forEach(function (p) {
    if (p !== except) p.updateOptions({ dateWindow: range, valueRange: [null, null] });
  });
}

function plot_options(chart, list, out) {
  var each = {}, o = {
    labels: ["x"].concat(list.map(function (s) { return s.name; })), legend: "never", connectSeparatedPoints: true,
    colors: list.map(function (s) { return colour(s.run) + (s.xs.length > 500 && data.runs.length > 1 ? "a0" : ""); }), series: each, strokeWidth: 1.4, animatedZooms: false,
    gridLineColor: css("--line"), axisLineColor: css("--faint"), axisLabelFontSize: 12, rightGap: 14, xAxisHeight: 26,
    logscale: chart.log && curves.log, highlightCircleSize: 3, dateWindow: curves.window,
    axes: { x: { axisLabelFormatter: count, pixelsPerLabel: 70 },
            y: { axisLabelFormatter: function (y) { return chart.of === "rate" ? count(y) : digits(y, 3); }, axisLabelWidth: 56 } },
    underlayCallback: draw_marks, highlightCallback: read_out(chart, list, out),
    unhighlightCallback: function () { out.textContent = ""; },
    zoomCallback: function (from, to) { zoom_to(this.isZoomed("x") ? [from, to] : null, this); }
  };
  list.forEach(function (s) {
    each[s.name] = { strokePattern: s.dash, drawPoints: !!s.points || s.xs.length < 3, pointSize: s.points ? 3.2 : 2.5 };
  });
  return o;
}

function draw_curves() {
  curves.plots.forEach(function (p) { p.destroy(); });
  curves.plots = [];
  charts.forEach(function (chart) {
    var list = series_of(chart);
    chart.box.style.display = list.length ? "" : "none";
    if (!list.length) return;
    /* Two runs of one path are two series. */
    list.forEach(function (s, n) { if (list.findIndex(function (o) { return o.name === s.name; }) < n) s.name += " (" + (s.run + 1) + ")"; });
    curves.plots.push(new Dygraph(chart.plot, rows_of(list), plot_options(chart, list, chart.out)));
  });
}

function choice(texts, initial, chosen) {
  var buttons = texts.map(function (text, n) {
    return el("button", { type: "button", "aria-pressed": String(n === initial), on: { click: function () {
      buttons.forEach(function (b, k) { b.setAttribute("aria-pressed", String(k === n)); });
      chosen(n);
    } } }, text);
  });
  return el("span", { "class": "group" }, buttons);
}

function remember(name, value) {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value);
    return sessionStorage.getItem(name);
  } catch (e) { return null; }
}

function show_curves() {
  var box = el("div", { "class": "charts" });
  root.appendChild(el("h2", {}, "Curves"));
  if (!data.curves) {
    root.appendChild(el("p", {}, "This trine-report was built without dygraphs, which draws curves (make DYGRAPHS=FILE)."));
    return;
  }
  curves.x = Math.min(2, Number(remember("x") || 0));
  root.appendChild(el("div", { "class": "controls" },
    el("span", { "class": "group" }, "over ", choice(axes.map(function (a) { return a[1]; }), curves.x, function (n) {
      remember("x", n); curves.x = n; curves.window = null; draw_curves();
    })),
    el("label", {}, el("input", { type: "checkbox", on: { change: function () { curves.log = this.checked; draw_curves(); } } }), "loss and norm on logarithmic scales"),
    el("button", { type: "button", on: { click: function () { zoom_to(null); } } }, "whole run")));
  charts.forEach(function (c) {
    c.plot = el("div", { "class": "plot" });
    c.out = el("div", { "class": "readout" });
    c.box = el("div", { "class": "chart" }, el("h3", {}, c.title), c.plot, c.out);
    box.appendChild(c.box);
  });
  root.appendChild(box);
  root.appendChild(el("p", { "class": "note" }, "A pointer over a curve shows its numbers below it; drag to zoom in, double-click for the whole run. " +
    "Points on a dotted line are validation; a triangle at the bottom is a skipped step, an upright dashed line a resume."));
  draw_curves();
}

/* ---- Runs -------------------------------------------------------------------------------------------- */

function last(list) {
  for (var n = list.length; n-- > 0;) if (known(list[n])) return list[n];
  return null;
}

function line_sample(n) {
  var canvas = el("canvas", { "class": "sample" });
  canvas.style.width = "36px";
  function draw() {
    var g = sized(canvas, 36, 12);
    g.strokeStyle = colour(n);
    g.lineWidth = 2.4;
    g.setLineDash(lines[n % lines.length] || []);
    g.beginPath(); g.moveTo(0, 6); g.lineTo(36, 6); g.stroke();
  }
  draw();
  redraws.push(draw);
  return canvas;
}

function layouts_of(run) {
  var list = [];
  run.starts.forEach(function (s) {
    if (s.run.layout && list[list.length - 1] !== s.run.layout) list.push(s.run.layout);
  });
  return list.join(", then ") || "–";
}

function base_name(path) { return path.replace(/^.*\//, ""); }

/* The traces that a start was asked to write, without their folders: the page may be made elsewhere. */
function traces_of(run) {
  return (run.options || []).filter(function (o) { return /^--trace=/.test(o); }).map(base_name);
}

/* What was planned, by itself for each start with a plan of its own: [{p, name, resident, traces}]. */
function plans_of() {
  var list = [];
  data.runs.forEach(function (run, n) {
    var own = [], after = null, most = 0, traces = [];
    run.starts.forEach(function (s, k) {
      var newest = k + 1 === run.starts.length, p = newest ? run.planned : s.planned;
      if (after === null) { after = s.after; most = 0; traces = []; }
      traces = traces.concat(traces_of(s.run));
      most = Math.max(most, (newest ? run.resident : s.resident) || 0);
      if (!p) return;
      var next = run.starts.slice(k + 1).map(function (o) { return o.planned; }).concat([run.planned]).filter(Boolean)[0];
      if (!newest && JSON.stringify(next) === JSON.stringify(p)) return;
      own.push({ p: p, n: n, after: after, layout: s.run.layout, resident: most, traces: traces });
      after = null;
    });
    own.forEach(function (x) {
      x.name = names[n] + (own.length > 1 ? (x.after ? ", after step " + x.after : ", from the start") + (x.layout ? ": " + x.layout : "") : "");
    });
    list = list.concat(own);
  });
  return list;
}

function show_runs() {
  if (!data.runs.length) return;
  var rows = data.runs.map(function (run, n) {
    var box = el("input", { type: "checkbox", "aria-label": "show " + names[n], on: { change: function () {
      curves.hidden[n] = !this.checked; if (data.curves) draw_curves();
    } } });
    box.checked = true;
    var val = run.val.length ? run.val[run.val.length - 1][3] : null;
    var resumes = run.starts.filter(function (s) { return s.after > 0; }).map(function (s) { return s.after; });
    return [data.runs.length > 1 ? [box, line_sample(n), " " + names[n]] : names[n], count(last(run.step)), digits(last(run.loss), 5), digits(val, 5),
            count(last(run.tokens)), count(median(run.rate.filter(known).concat(run.rate.some(known) ? [] : [NaN]))),
            digits(last(run.hours), 3) + " " + unit[0], run.skipped.length, resumes.length ? "after " + resumes.join(", ") : "–", layouts_of(run)];
  });
  root.appendChild(table([["run", "text"], ["step"], ["loss"], ["validation"], ["tokens"], ["tokens/s, median"], ["time"], ["skipped"], ["resumed", "text"], ["layout", "text long"]], rows));
  data.runs.forEach(function (run, n) {
    if (run.torn) root.appendChild(el("p", { "class": "note" }, names[n] + ": its last line has no end; the run goes on, or was killed there."));
  });
}

/* ---- The pipeline -------------------------------------------------------------------------------------- */

var kind_of = {};
data.kinds.forEach(function (k, n) { kind_of[k] = n; });
var letters = { FORWARD: "F", BACKWARD: "B", BACKWARD_INPUT: "I", BACKWARD_WEIGHT: "W" };
var textures = { FORWARD: 0, BACKWARD: 1, BACKWARD_INPUT: 2, BACKWARD_WEIGHT: 3 };
var pictures = { by_kind: false, list: [], messages: true };
var by_kind_fill = { FORWARD: areas[0], BACKWARD: areas[1], BACKWARD_INPUT: areas[2], BACKWARD_WEIGHT: areas[3] };

function span_fill(name, micro) {
  if (!letters[name]) return is_dark() ? "#6b7280" : "#9aa0aa";
  if (pictures.by_kind || micro < 0) return by_kind_fill[name];
  return areas[micro % 7];
}

/* A row a rank: rows [{label, short, list}], of spans with `width` numbers each; range [from, to] in the rows' unit; text
 * of a moment; messages, with rows' indices. */
function Picture(o) {
  var self = this;
  self.o = o;
  self.view = o.range.slice();
  self.canvas = el("canvas", { tabindex: "0", "aria-label": o.title });
  self.box = el("div", { "class": "timeline" }, self.canvas);
  self.canvas.addEventListener("mousemove", function (e) { self.point(e); });
  self.canvas.addEventListener("mouseleave", function () { show_tip(null, ""); self.drag = null; self.draw(); });
  self.canvas.addEventListener("mousedown", function (e) { self.drag = [self.at(e), self.at(e)]; });
  self.canvas.addEventListener("mouseup", function () { self.drop(); });
  self.canvas.addEventListener("dblclick", function () { self.zoom(self.o.range.slice()); });
  self.canvas.addEventListener("click", function (e) { self.point(e); });
  pictures.list.push(self);
}

Picture.prototype.at = function (e) {
  var box = this.canvas.getBoundingClientRect();
  return this.view[0] + (e.clientX - box.left - this.left) / (box.width - this.left) * (this.view[1] - this.view[0]);
};
Picture.prototype.zoom = function (view) {
  var least = (this.o.range[1] - this.o.range[0]) / 1e5;
  if (view[1] - view[0] < least) return;
  pictures.list.forEach(function (p) {
    if (p !== this && (!p.o.shared || !this.o.shared)) return;
    p.view = view.slice();
    p.draw();
  }, this);
};
Picture.prototype.scale = function (factor, shift) {
  var size = this.view[1] - this.view[0], middle = (this.view[0] + this.view[1]) / 2 + shift * size;
  var from = middle - size * factor / 2, to = middle + size * factor / 2, r = this.o.range;
  if (to - from > r[1] - r[0]) { from = r[0]; to = r[1]; }
  if (from < r[0]) { to += r[0] - from; from = r[0]; }
  if (to > r[1]) { from -= to - r[1]; to = r[1]; }
  this.zoom([from, to]);
};
Picture.prototype.drop = function () {
  var d = this.drag;
  this.drag = null;
  if (d && Math.abs(d[1] - d[0]) > (this.view[1] - this.view[0]) / 100) this.zoom([Math.min(d[0], d[1]), Math.max(d[0], d[1])]);
  else this.draw();
};

/* The row and the place of the span under the pointer. */
Picture.prototype.find = function (e) {
  var box = this.canvas.getBoundingClientRect(), row = Math.floor((e.clientY - box.top - this.top) / this.height);
  var r = this.o.rows[row], at = this.at(e), w = this.o.width;
  if (!r || e.clientX - box.left < this.left) return r ? { row: r, n: -1 } : null;
  var found = -1, slack = (this.view[1] - this.view[0]) / 400;
  for (var n = 0; n < r.list.length; n += w) {
    if (r.list[n] > at + slack) break;
    if (r.list[n] + r.list[n + 1] >= at - slack && (found < 0 || r.list[n] <= at)) found = n;
  }
  return { row: r, n: found };
};
Picture.prototype.point = function (e) {
  if (this.drag) { this.drag[1] = this.at(e); this.draw(); return; }
  var f = this.find(e);
  show_tip(e, f ? this.o.describe(f.row, f.n, this.at(e)) : "");
};

function nice_step(size, most) {
  var raw = size / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(function (k) { return k * power; }).find(function (s) { return s >= raw; });
}

Picture.prototype.draw_axis = function (g, width) {
  var step = nice_step(this.view[1] - this.view[0], Math.max(2, (width - this.left) / 90)), y = this.top + this.o.rows.length * this.height;
  g.strokeStyle = css("--line");
  g.fillStyle = css("--faint");
  /* Far from 0 a step may be less than numbers differ there. */
  for (var k = 0, first = Math.ceil(this.view[0] / step); k < 100; k++) {
    var t = (first + k) * step, x = this.x(t);
    if (!(t <= this.view[1])) break;
    g.beginPath(); g.moveTo(x, this.top); g.lineTo(x, y + 4); g.stroke();
    var text = this.o.moment(t), w = g.measureText(text).width;
    label(g, this.canvas, text, Math.max(this.left, Math.min(x - w / 2, width - w - 1)), y + 16, 11);
  }
};
Picture.prototype.x = function (t) {
  return this.left + (t - this.view[0]) / (this.view[1] - this.view[0]) * (this.canvas.clientWidth - this.left);
};

Picture.prototype.draw_span = function (g, list, n, x0, x1, y, h) {
  var name = data.kinds[list[n + 2]], micro = list[n + 3], flags = this.o.flags ? list[n + 5] : 0, wide = x1 - x0;
  if (flags & 1) {
    if (!(flags & 2)) return;
    g.fillStyle = texture(g, css("--mark"), 1);
    g.fillRect(x0, y + h * 0.3, Math.max(wide, 1), h * 0.4);
    return;
  }
  var fill = span_fill(name, micro);
  g.fillStyle = wide < 4 ? fill : texture(g, fill, letters[name] ? textures[name] : 6);
  g.fillRect(x0, y, Math.max(wide, 0.7), h);
  if (wide > 3) { g.strokeStyle = "rgba(0,0,0,0.45)"; g.lineWidth = 0.6; g.strokeRect(x0, y, wide, h); }
  if (flags & 2) { g.strokeStyle = css("--mark"); g.lineWidth = 3; g.strokeRect(x0 + 1, y + 1, Math.max(wide - 2, 1), h - 2); }
  if (h < 12 || wide < 17 || !letters[name]) return;
  var text = letters[name] + (micro >= 0 ? micro : "");
  if (g.measureText(text).width + 6 > wide) return;
  var w = g.measureText(text).width, cx = Math.max(x0, this.left) + (Math.min(x1, this.canvas.clientWidth) - Math.max(x0, this.left)) / 2;
  g.fillStyle = "rgba(255,255,255,0.78)";
  g.fillRect(cx - w / 2 - 2, y + h / 2 - 6, w + 4, 12);
  g.fillStyle = "#000000";
  label(g, this.canvas, text, cx, y + h / 2 + 4, 9, true);
};

Picture.prototype.draw_row = function (g, row, y, h) {
  var w = this.o.width, edge = this.canvas.clientWidth, filled = -1;
  for (var n = 0; n < row.list.length; n += w) {
    var x0 = this.x(row.list[n]), x1 = this.x(row.list[n] + row.list[n + 1]);
    if (x1 < this.left || x0 > edge) continue;
    if (x1 - x0 < 0.7 && x0 < filled) continue;
    this.draw_span(g, row.list, n, Math.max(x0, this.left), Math.min(x1, edge), y, h);
    filled = Math.max(x0, x1 - 0.3) + 0.4;
  }
};

Picture.prototype.draw_messages = function (g) {
  var m = this.o.messages || [], self = this, inside = [];
  if (!pictures.messages) return;
  for (var n = 0; n < m.length; n += 4) if (m[n + 3] >= self.view[0] && m[n + 2] <= self.view[1]) inside.push(n);
  if (inside.length > 600) return;
  g.strokeStyle = g.fillStyle = css("--text");
  g.lineWidth = 0.8;
  g.globalAlpha = 0.75;
  inside.forEach(function (k) {
    var x0 = self.x(m[k + 2]), x1 = self.x(m[k + 3]), y0 = self.top + (m[k] + 0.5) * self.height, y1 = self.top + (m[k + 1] + 0.5) * self.height;
    if (x0 < self.left || x1 < self.left) return;
    g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke();
    g.beginPath(); g.arc(x1, y1, 1.8, 0, 7); g.fill();
  });
  g.globalAlpha = 1;
};

Picture.prototype.draw = function () {
  var width = this.box.clientWidth, rows = this.o.rows, narrow = width < 560, self = this;
  if (!width) return;
  this.height = rows.length > 24 ? 14 : rows.length > 10 ? 20 : 28;
  this.top = 4;
  this.canvas.style.width = width + "px";
  var g = sized(this.canvas, width, this.top + rows.length * this.height + 22);
  forget(this.canvas);
  g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  this.left = 8 + Math.max.apply(null, rows.map(function (r) { return g.measureText(narrow ? r.short : r.label).width; }));
  g.fillStyle = css("--panel");
  g.fillRect(this.left, this.top, width, rows.length * this.height);
  this.draw_axis(g, width);
  rows.forEach(function (r, n) {
    var y = self.top + n * self.height;
    g.fillStyle = css("--text");
    label(g, self.canvas, narrow ? r.short : r.label, 0, y + self.height / 2 + 4, 10);
    self.draw_row(g, r, y + 1, self.height - 2);
  });
  this.draw_messages(g);
  if (this.drag) {
    g.fillStyle = "rgba(127,127,127,0.35)";
    g.fillRect(this.x(Math.min(this.drag[0], this.drag[1])), this.top, Math.abs(this.x(this.drag[1]) - this.x(this.drag[0])), rows.length * this.height);
  }
};

Picture.prototype.show = function () {
  var self = this;
  function button(text, name, f) { return el("button", { type: "button", "aria-label": name, on: { click: f } }, text); }
  root.appendChild(el("div", { "class": "controls" },
    el("span", { "class": "group" },
      button("+", "zoom in", function () { self.scale(0.5, 0); }), button("−", "zoom out", function () { self.scale(2, 0); }),
      button("◀", "earlier", function () { self.scale(1, -0.5); }), button("▶", "later", function () { self.scale(1, 0.5); }),
      button("all", "the whole step", function () { self.zoom(self.o.range.slice()); })), this.o.more));
  root.appendChild(this.box);
};

function rank_name(r) { return "rank " + r.rank + (r.place ? " (" + r.place + ")" : ""); }

function describe_span(row, n, list, text) {
  if (n < 0) return row.name;
  var name = data.kinds[list[n + 2]] || "other", flags = text.flags ? list[n + 5] : 0;
  return row.name + "\n" + (flags & 1 ? "waits for " : "") + name + (list[n + 4] >= 0 ? ", unit " + list[n + 4] : "") +
    (list[n + 3] >= 0 ? ", micro-batch " + list[n + 3] : "") + (flags & 4 ? " (evaluation)" : "") + (flags & 2 ? "\nunfinished" : "") + "\n" +
    text.length(list[n + 1]) + ", from " + text.moment(list[n]);
}

/* The steps of a trace that can be chosen: [text, from, to]. */
function steps_of(t) {
  var by = new Map();
  for (var n = 0; n < t.steps.length; n += 5) {
    var flags = t.steps[n + 4], key = t.steps[n + 3] + (flags & 4 ? "e" : "");
    var s = by.get(key) || [(flags & 4 ? "evaluation after " : "step ") + t.steps[n + 3], Infinity, -Infinity, 0];
    s[1] = Math.min(s[1], t.steps[n + 1]);
    s[2] = Math.max(s[2], t.steps[n + 1] + t.steps[n + 2]);
    s[3] |= flags;
    by.set(key, s);
  }
  return Array.from(by.values()).sort(function (a, b) { return a[1] - b[1]; });
}

function kind_key(kinds, micros) {
  var key = el("div", { "class": "key" });
  function fill() {
    key.textContent = "";
    kinds.forEach(function (k) {
      var micro = pictures.by_kind ? -1 : 0, other = !letters[k];
      key.appendChild(el("span", { "class": "item" }, swatch(span_fill(k, other ? -1 : micro), other ? 6 : textures[k]),
        other ? k : letters[k] + " " + k.toLowerCase().replace("_", " of ").replace("backward of input", "gradient of inputs").replace("backward of weight", "gradient of weights")));
    });
    if (!pictures.by_kind && micros > 1)
      for (var m = 0; m < Math.min(micros, 7); m++)
        key.appendChild(el("span", { "class": "item" }, swatch(areas[m], 0), "micro-batch " + m + (micros > m + 7 ? ", " + (m + 7) + (micros > m + 14 ? " …" : "") : "")));
  }
  fill();
  redraws.push(fill);
  return key;
}

/* Kinds that a list of rows has, and the number of its micro-batches. */
function kinds_in(rows, width, flags) {
  var has = {}, micros = 0;
  rows.forEach(function (r) {
    for (var n = 0; n < r.list.length; n += width) {
      if (flags && r.list[n + 5] & 1) continue;
      has[letters[data.kinds[r.list[n + 2]]] ? data.kinds[r.list[n + 2]] : "other instructions"] = true;
      micros = Math.max(micros, r.list[n + 3] + 1);
    }
  });
  var order = Object.keys(letters).concat(["other instructions"]);
  return { kinds: order.filter(function (k) { return has[k]; }), micros: micros };
}

function colour_choice() {
  return el("span", { "class": "group" }, "colours by ", choice(["micro-batch", "kind"], 0, function (n) {
    pictures.by_kind = n === 1;
    redraw();
  }));
}

function show_measured(t) {
  var steps = steps_of(t), chosen = steps.findIndex(function (s) { return !(s[3] & 6); });
  var rows = t.ranks.map(function (r, n) {
    return { label: "rank " + r.rank + (r.place ? "  " + r.place : ""), short: String(r.rank), name: rank_name(r), list: t.spans[n] };
  });
  var origin = chosen >= 0 && t.kind !== "ring" ? steps[chosen][1] : 0;
  function moment(us) { return micros(us - origin); }
  var whole = chosen >= 0 && t.kind !== "ring" ? [steps[chosen][1], steps[chosen][2]] : [0, t.span];
  var names_in = kinds_in(rows, 6, true);
  var picture = new Picture({ title: "the pipeline as measured", rows: rows, width: 6, flags: true, range: whole, moment: moment, shared: true,
    describe: function (row, n) { return describe_span(row, n, row.list, { flags: true, length: micros, moment: moment }); }, messages: t.messages });
  picture.o.more = [steps.length > 1 ? el("label", {}, "step", el("select", { on: { change: function () {
      var s = Number(this.value) < 0 ? [0, 0, t.span] : steps[Number(this.value)];
      origin = s[1];
      picture.o.range = [s[1], s[2]];
      picture.view = picture.o.range.slice();
      picture.draw();
    } } }, steps.map(function (s, n) {
      var o = el("option", { value: n }, s[0]);
      if (n === chosen && t.kind !== "ring") o.selected = true;
      return o;
    }).concat([(function () { var o = el("option", { value: -1 }, "all"); o.selected = t.kind === "ring" || chosen < 0; return o; })()]))) : null,
    colour_choice(),
    t.messages.length ? el("label", {}, (function () {
      var c = el("input", { type: "checkbox", on: { change: function () { pictures.messages = this.checked; redraw(); } } });
      c.checked = pictures.messages;
      return c;
    })(), "messages") : null];
  root.appendChild(el("h3", {}, "As measured: a row a rank"));
  picture.show();
  root.appendChild(kind_key(names_in.kinds, names_in.micros));
  return { picture: picture, range: whole };
}

/* Rows of a plan; in microseconds if they can be, else in units of time. */
function planned_rows(p, factor) {
  return p.passes.map(function (list, n) {
    var scaled_list = Float64Array.from(list, function (x, k) { return k % 6 < 2 ? x * factor : x; });
    return { label: "stage " + n + "  " + (p.stages[n] || ""), short: String(n), name: "stage " + n + (p.stages[n] ? ": " + p.stages[n] : ""), list: scaled_list };
  });
}

/* Microseconds of passes in the busiest stage between two moments, as the mean of its ranks. */
function busiest(t, from, to) {
  var by = {};
  t.ranks.forEach(function (r, n) {
    var busy = 0, list = t.spans[n];
    for (var k = 0; k < list.length; k += 6)
      if (!(list[k + 5] & 7) && list[k] >= from && list[k] < to && letters[data.kinds[list[k + 2]]]) busy += list[k + 1];
    (by[r.stage] = by[r.stage] || []).push(busy);
  });
  return Math.max.apply(null, Object.keys(by).map(function (k) { return sum(by[k]) / by[k].length; }));
}

function show_planned(p, name, measured, several) {
  var most = Math.max.apply(null, p.passes.map(function (l) { var s = 0; for (var n = 1; n < l.length; n += 6) s += l[n]; return s; }));
  var factor = p.unit === "s" ? 1e6 : measured && data.trace ? busiest(data.trace, measured.range[0], measured.range[1]) / most : 1;
  var in_time = p.unit === "s" || (measured && isFinite(factor) && factor > 0);
  if (!in_time) factor = 1;
  var rows = planned_rows(p, factor), end = p.span * factor, text = in_time ? micros : function (x) { return digits(x, 4); };
  root.appendChild(el("h3", {}, "As planned: a row a stage" + (several ? " (" + name + ")" : "")));
  root.appendChild(el("p", { "class": "note" }, p.unit === "s" ? "Times of " + data.hardware + "." :
    in_time ? "Simulated with F : B = 1 : 2, scaled so that the busiest stage's passes take as long as measured; messages take no time." :
    "In units of time: a forward pass of a chunk takes 1, a backward pass 2 (its two halves 1 each); messages take no time."));
  var range = measured ? [0, Math.max(end, measured.range[1] - measured.range[0])] : [0, end];
  var picture = new Picture({ title: "the pipeline as planned", rows: rows, width: 6, flags: false, range: range, moment: text,
    describe: function (row, n) { return describe_span(row, n, row.list, { length: text, moment: text }); },
    more: measured ? null : [colour_choice()] });
  picture.show();
  var has = kinds_in(rows, 6, false);
  if (!measured) root.appendChild(kind_key(has.kinds, has.micros));
}

function names_trace(x, t) {
  return t.paths.some(function (p) { return x.traces.indexOf(base_name(p)) >= 0; });
}

/* The plans that a trace may belong to: of its layout, where both are known; of these those of runs that have written a
 * file of its name; of as many stages and ranks, or of as many stages, or of more, for the trace of some nodes. */
function plans_that_fit(t, plans) {
  plans = plans.filter(function (x) { return !t.layout || !x.layout || x.layout === t.layout; });
  var named = plans.filter(function (x) { return names_trace(x, t); });
  if (named.length) plans = named;
  var stages = new Set(t.ranks.map(function (r) { return r.stage; })).size;
  var fits = [function (x) { return x.p.passes.length === stages && x.p.ranks === t.ranks.length; },
              function (x) { return x.p.passes.length === stages; },
              function (x) { return x.p.passes.length > stages; }].map(function (is) { return plans.filter(is); });
  return fits.filter(function (f) { return f.length; })[0] || [];
}

/* The one that is drawn: of several the newest of the first log. */
function plan_of_trace(fits) {
  return fits.filter(function (x) { return x.n === fits[0].n; }).slice(-1);
}

/* Of which of several runs the trace is, as far as the logs tell. */
function whose_trace(t, fits) {
  var files = t.paths.map(base_name).join(", "), of = Array.from(new Set(fits.map(function (x) { return names[x.n]; })));
  if (!of.length) return "";
  if (fits.every(function (x) { return names_trace(x, t); })) return files + " was written by " + of.join(" or ") + ", as its options say.";
  if (of.length > 1) return "The logs do not say of which run " + files + " is: " + of.join(", ") + " have its layout. The plan is that of " + of[0] + ".";
  return files + " has the layout of " + of[0] + ", and of no other run here.";
}

function show_pipeline() {
  var t = data.trace, plans = plans_of(), most = 5;
  var drawn_plans = plans.filter(function (x) { return x.p.passes && (t || x.p.passes.length > 1); });
  var fits = t ? plans_that_fit(t, drawn_plans) : [];
  if (t) drawn_plans = plan_of_trace(fits);
  if (!t && !drawn_plans.length) return;
  root.appendChild(el("h2", {}, "Pipeline"));
  var texts = [];
  if (t && known(t.bubble)) texts.push("Measured bubble " + percent(t.bubble) + " (the share of the time from a step's first pass to its last in which a rank runs no pass, over all ranks)");
  plans.forEach(function (x) {
    var who = plans.length > 1 ? x.name + ": " : "";
    if (known(x.p.bubble)) texts.push(who + "by the schedule's formula " + percent(x.p.bubble));
    else if (known(x.p.idle)) texts.push(who + "by simulation, F : B = 1 : 2, " + percent(x.p.idle));
  });
  if (texts.length) root.appendChild(el("p", {}, (t && known(t.bubble) ? "" : "Bubble: ") + texts.join("; ") + "."));
  var measured = t ? show_measured(t) : null;
  if (t && known(t.error)) root.appendChild(el("p", { "class": "note" }, "The ranks' clocks agree to " + micros(t.error) + ": times between ranks are that exact."));
  if (t && data.runs.length > 1 && fits.length) root.appendChild(el("p", { "class": "note" }, whose_trace(t, fits)));
  if (t && plans.length && !drawn_plans.length)
    root.appendChild(el("p", { "class": "note" }, "No plan of these logs has the " + (t.layout ? "layout of the trace, " + t.layout : "stages of the trace") + "."));
  drawn_plans.slice(0, most).forEach(function (x) { show_planned(x.p, x.name, measured, plans.length > 1); });
  if (drawn_plans.length > most) root.appendChild(el("p", { "class": "note" }, "Not drawn: the plans of " + drawn_plans.slice(most).map(function (x) { return x.name; }).join("; ") + "."));
  plans.forEach(function (x) {
    if (x.p.missing && !x.p.passes) root.appendChild(el("p", { "class": "note" }, x.name + ": not planned: " + x.p.missing));
  });
}

/* ---- Bars ------------------------------------------------------------------------------------------------ */

/* rows: [{name, parts: [number], total: text}] of parts with names; widths are shares of `most`. */
function bars(rows, parts, most, text) {
  var box = el("div", { "class": "bars" });
  var used = parts.map(function (_, k) { return rows.some(function (r) { return r.parts[k] > 0; }); });
  rows.forEach(function (r) {
    var bar = el("div", { "class": "bar" });
    r.parts.forEach(function (x, k) {
      if (!(x > 0)) return;
      var canvas = el("canvas"), part = el("div", { "class": "part" }, canvas);
      part.style.width = 100 * x / most + "%";
      part.addEventListener("mousemove", function (e) { show_tip(e, r.name + "\n" + parts[k] + ": " + text(x) + (r.parts.filter(Boolean).length > 1 ? " (" + percent(x / sum(r.parts)) + ")" : "")); });
      part.addEventListener("mouseleave", function () { show_tip(null, ""); });
      part.addEventListener("click", function (e) { show_tip(e, r.name + "\n" + parts[k] + ": " + text(x)); });
      bar.appendChild(part);
      redraws.push(draw);
      later.push(draw);
      function draw() {
        var w = part.clientWidth;
        if (!w) return;
        canvas.style.width = w + "px";
        var g = sized(canvas, w, 26), words = r.parts.filter(Boolean).length > 1 ? percent(x / sum(r.parts)) : "";
        forget(canvas);
        g.fillStyle = texture(g, areas[k % areas.length], k % 7);
        g.fillRect(0, 0, w, 26);
        g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
        var wide = g.measureText(words).width;
        if (!words || wide + 10 > w) return;
        g.fillStyle = "rgba(255,255,255,0.82)";
        g.fillRect(w / 2 - wide / 2 - 3, 5, wide + 6, 16);
        g.fillStyle = "#000000";
        label(g, canvas, words, w / 2, 17, 10, true);
      }
    });
    box.appendChild(el("span", { "class": "name" }, r.name));
    box.appendChild(bar);
    box.appendChild(el("span", { "class": "total" }, r.total));
  });
  root.appendChild(box);
  var key = el("div", { "class": "key" });
  parts.forEach(function (p, k) {
    if (used[k]) key.appendChild(el("span", { "class": "item" }, swatch(areas[k % areas.length], k % 7), p));
  });
  root.appendChild(key);
}

/* Ranks by stage: [{stage, ranks: [index]}]. */
function stages_of(t) {
  var by = new Map();
  t.ranks.forEach(function (r, n) { by.set(r.stage, (by.get(r.stage) || []).concat([n])); });
  return Array.from(by.keys()).sort(function (a, b) { return a - b; }).map(function (k) { return { stage: k, ranks: by.get(k) }; });
}

function show_time() {
  var t = data.trace, steps = t ? Math.max(t.complete, 1) : 1;
  var plans = plans_of(), forecasts = plans.filter(function (x) { return x.p.forecast; });
  if (!t && !forecasts.length) return;
  root.appendChild(el("h2", {}, "Where a step's time went, by stage"));
  if (t) {
    var rows = stages_of(t).map(function (s) {
      var parts = t.parts.map(function (_, k) { return sum(s.ranks.map(function (r) { return t.time[r].parts[k]; })) / s.ranks.length / steps; });
      return { name: s.stage < 0 ? "all ranks" : "stage " + s.stage, parts: parts, total: micros(sum(parts)) };
    });
    bars(rows, t.parts, Math.max.apply(null, rows.map(function (r) { return sum(r.parts); })), micros);
    root.appendChild(el("p", { "class": "note" }, "The mean of a stage's ranks" + (t.complete ? ", over " + plural(t.complete, "traced step") + "." : ", of an incomplete step.") +
      " A collective begins when its last rank comes; what the others wait for it is “waiting for a late rank”."));
  }
  forecasts.forEach(function (x) {
    var f = x.p.forecast;
    root.appendChild(el("h3", {}, "Planned on " + data.hardware + (plans.length > 1 ? ": " + x.name : "") + ", " + micros(f.step * 1e6) + " a step"));
    bars(f.stages.map(function (p, s) { return { name: "stage " + s, parts: p.map(function (x) { return x * 1e6; }), total: micros(sum(p) * 1e6) }; }),
         f.parts, Math.max.apply(null, f.stages.map(sum)) * 1e6, micros);
  });
}

/* ---- Lateness --------------------------------------------------------------------------------------------- */

function late_list(t) {
  var steps = Math.max(t.complete, 1), late = t.parts.indexOf("waiting for a late rank");
  var by_stage = {};
  stages_of(t).forEach(function (s) { by_stage[s.stage] = median(s.ranks.map(function (r) { return t.time[r].own; })); });
  return t.ranks.map(function (r, n) {
    var x = t.time[n];
    var each = x.caused / Math.max(x.waiters, 1) / steps, waited = x.parts[late] / steps, step = Math.max(x.steps, 1) / steps;
    return { n: n, rank: r, caused: x.caused / steps, each: each, waiters: x.waiters, waited: waited, own: x.own / steps, step: step,
             ratio: x.own / by_stage[r.stage], share: each / step, net: (each - waited) / step };
  }).sort(function (a, b) { return b.net - a.net; });
}

/* A rank is named where those that wait for it lose this part of a step by it, more than it waits itself. */
var NAMED = 0.1;

/* Who did not wait while others did. */
function name_running(t, unfinished) {
  var running = t.ranks.filter(function (r) { return /^in /.test(r.state); });
  var waiting = t.ranks.filter(function (r) { return /^waiting/.test(r.state); });
  if (!unfinished || !running.length || running.length > 4 || !waiting.length) return "";
  return ". " + running.map(function (r) { return rank_name(r) + " was " + r.state; }).join("; ") + ", while " +
    (waiting.length === t.ranks.length - running.length ? "all others" : plural(waiting.length, "rank")) + " waited";
}

function show_verdict() {
  var t = data.trace;
  if (!t) return;
  var unfinished = t.steps.some(function (_, n) { return n % 5 === 4 && t.steps[n] & 2; });
  if (t.why) root.appendChild(el("p", { "class": "verdict" }, "Why the last steps were written: " + t.why + name_running(t, unfinished)));
  if (unfinished && t.ranks.some(function (r) { return r.state; }))
    root.appendChild(table([["rank", "text"], ["where it was", "text long"]], t.ranks.map(function (r) { return [rank_name(r), r.state || "–"]; })));
  if (t.ranks.length < 2 || !t.complete || unfinished) return;
  var worst = late_list(t)[0];
  if (worst.net > NAMED)
    root.appendChild(el("p", { "class": "verdict" }, rank_name(worst.rank).replace("rank", "Rank") + " is late: " + plural(worst.waiters, "rank") + " wait" + (worst.waiters === 1 ? "s " : " ") +
      micros(worst.each) + " of each step for it, " + percent(worst.share) + (worst.waiters === 1 ? " of its time" : " of their time each") +
      (worst.ratio > 1.05 ? "; its own work takes " + digits(worst.ratio, 3) + " times that of the median rank of its stage." : ".")));
  else
    root.appendChild(el("p", { "class": "verdict calm" }, "No straggler: no rank delays those that wait for it by more than 10%, net of its own waiting."));
}

function show_late() {
  var t = data.trace;
  if (!t || t.ranks.length < 2) return;
  var list = late_list(t);
  function row(x) { return [rank_name(x.rank), micros(x.caused), micros(x.waited), micros(x.own), x.ratio ? "× " + digits(x.ratio, 3) : "–", percent(x.own / x.step)]; }
  var head = [["rank", "text"], ["others waited for it"], ["it waited for others"], ["own work"], ["own work / median of its stage"], ["own work / step"]];
  root.appendChild(el("h2", {}, "Ranks by lateness"));
  root.appendChild(table(head, list.slice(0, 16).map(row)));
  if (list.length > 16) root.appendChild(el("details", {}, el("summary", {}, "the other " + (list.length - 16) + " ranks"), table(head, list.slice(16).map(row))));
  root.appendChild(el("p", { "class": "note" }, "Means of a step; “others waited for it” is the sum over all of them. Sorted by blame: the time that each waiting rank loses to this one, minus the time that this one is itself kept waiting."));
  if (!t.pairs.length) return;
  var steps = Math.max(t.complete, 1);
  root.appendChild(el("h3", {}, "Who waited for whom"));
  function pair(p) { return [rank_name(t.ranks[p[0]]), rank_name(t.ranks[p[1]]), micros(p[2] / steps)]; }
  var pairs = [["who waited", "text"], ["for whom", "text"], ["in a step"]];
  root.appendChild(table(pairs, t.pairs.slice(0, 8).map(pair)));
  if (t.pairs.length > 8) root.appendChild(el("details", {}, el("summary", {}, "more pairs"), table(pairs, t.pairs.slice(8).map(pair))));
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

function show_memory() {
  var runs = plans_of().filter(function (x) { return x.p.memory; });
  if (!runs.length) return;
  root.appendChild(el("h2", {}, "Memory of a rank, by stage"));
  var resident = false;
  runs.forEach(function (x) {
    if (runs.length > 1) root.appendChild(el("h3", {}, x.name));
    var rows = x.p.memory.stages.map(function (p, s) { return { name: "stage " + s, parts: p.concat([0]), total: bytes(sum(p)) }; });
    if (x.resident > 0) {
      resident = true;
      rows.push({ name: "rank 0, resident", parts: x.p.memory.kinds.map(function () { return 0; }).concat([x.resident]), total: bytes(x.resident) });
    }
    bars(rows, x.p.memory.kinds.concat(["resident"]), Math.max.apply(null, rows.map(function (r) { return sum(r.parts); })), bytes);
  });
  root.appendChild(el("p", { "class": "note" }, "Planned, by kind" + (resident ? "; resident is the peak of rank 0’s process, which includes code, MPI and libraries." : ".")));
}

/* ---- What was run --------------------------------------------------------------------------------------------- */

function quoted(word) { return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'"; }
function option_name(word) { return word.replace(/^--/, "").replace(/=[\s\S]*$/, ""); }
function option_value(word) { return word.indexOf("=") < 0 ? "on" : word.replace(/^[^=]*=/, ""); }

/* All starts of all runs, as columns. */
function columns() {
  var list = [];
  data.runs.forEach(function (run, n) {
    run.starts.forEach(function (s, k) {
      var several = run.starts.length > 1;
      list.push({ title: (data.runs.length > 1 ? names[n] : several ? "" : names[n]) + (several ? (data.runs.length > 1 ? ", " : "") + (s.after ? "after step " + s.after : "from the start") : ""), run: s.run, n: n, k: k });
    });
  });
  return list;
}

function show_options(list) {
  var all = new Map();
  list.forEach(function (c, n) {
    (c.run.options || []).forEach(function (w) {
      var name = option_name(w);
      if (!all.has(name)) all.set(name, list.map(function () { return null; }));
      all.get(name)[n] = option_value(w);
    });
  });
  var same = [], different = [];
  all.forEach(function (values, name) {
    (values.every(function (v) { return v === values[0]; }) ? same : different).push([name, values]);
  });
  if (list.length > 1) {
    root.appendChild(el("h3", {}, different.length ? "What differs" : "The configurations are the same"));
    if (different.length)
      root.appendChild(table([["option", "text"]].concat(list.map(function (c) { return [c.title, "text long"]; })),
        different.map(function (d) { return [d[0]].concat(d[1].map(function (v) { return v === null ? "default" : v; })); })));
  }
  if (same.length)
    root.appendChild(el("details", {}, el("summary", {}, (list.length > 1 ? "What is the same: " : "Options that are not defaults: ") + same.length),
      table([["option", "text"], ["value", "text long"]], same.map(function (d) { return [d[0], d[1][0]]; }))));
}

function show_commands() {
  var list = columns();
  if (!list.length) return;
  root.appendChild(el("h2", {}, "What was run"));
  list.forEach(function (c) {
    var r = c.run, hosts = r.hosts || [];
    root.appendChild(el("h3", {}, c.title));
    if (r.command) root.appendChild(el("pre", {}, r.command.map(quoted).join(" ")));
    root.appendChild(el("p", { "class": "note" }, [r.layout, r.ranks ? plural(r.ranks, "rank") + " on " + hosts.slice(0, 8).join(", ") + (hosts.length > 8 ? " and " + (hosts.length - 8) + " more" : "") : "",
      r.version ? "Trine " + r.version : "", r.time ? new Date(r.time * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" : ""].filter(Boolean).join("; ")));
  });
  show_options(list);
}

function show_checkpoints() {
  var rows = [];
  data.runs.forEach(function (run, n) {
    /* One that a process began with may stand in lines that it cut off. */
    var all = run.checkpoints.concat(run.starts.map(function (s) { return s.after; }).filter(Boolean));
    var c = Array.from(new Set(all)).sort(function (a, b) { return a - b; }), shown = c.length > 12 ? c.slice(0, 4).join(", ") + " … " + c.slice(-6).join(", ") : c.join(", ");
    if (!c.length) return;
    rows.push([names[n], c.length, shown]);
  });
  if (!rows.length) return;
  root.appendChild(el("h2", {}, "Checkpoints"));
  root.appendChild(table([["run", "text"], ["number"], ["after steps", "text long"]], rows));
  root.appendChild(el("p", { "class": "note" }, "From the log: a checkpoint that was saved after its last line is not listed."));
}

/* ---- Samples of text --------------------------------------------------------------------------------------------- */

function show_samples() {
  if (!data.samples) return;
  var files = run_names(data.samples);
  root.appendChild(el("h2", {}, "Samples"));
  data.samples.forEach(function (s, n) {
    root.appendChild(el("h3", {}, files[n]));
    root.appendChild(el("pre", { dir: "auto" }, s.text ? s.text + (s.cut ? " …" : "") : "(no text)"));
  });
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

var redraws = [], later = [mark_wide];
function redraw() {
  tiles = {};
  if (data.curves && data.runs.length) draw_curves();
  pictures.list.forEach(function (p) { p.draw(); });
  redraws.forEach(function (f) { f(); });
}

root.textContent = "";
document.body.appendChild(tip);
var title = data.runs.length ? names.join(", ") : "trace";
document.title = "Trine: " + title;
root.appendChild(el("h1", {}, data.runs.length > 3 ? plural(data.runs.length, "run") : title));
show_verdict();
show_runs();
if (data.runs.length) show_curves();
show_pipeline();
show_time();
show_late();
show_memory();
show_commands();
show_checkpoints();
show_samples();
document.getElementById("made").textContent = "Made by trine-report " + data.version + ", " + new Date(data.made * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" +
  (data.watch ? "; loaded again every " + data.watch + " s." : ".");
pictures.list.forEach(function (p) { p.draw(); });
later.forEach(function (f) { f(); });

root.addEventListener("toggle", mark_wide, true);

var waiting = null;
window.addEventListener("resize", function () {
  clearTimeout(waiting);
  waiting = setTimeout(function () { pictures.list.forEach(function (p) { p.draw(); }); later.forEach(function (f) { f(); }); }, 60);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.addEventListener("beforeprint", function () { printing = true; redraw(); });
window.addEventListener("afterprint", function () { printing = false; redraw(); });
if (data.watch) setTimeout(function () { location.reload(); }, data.watch * 1000);
})();
