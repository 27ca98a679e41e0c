/* Put into a page by tests/report/page.t, in front of its own scripts: tells the page around it what went wrong, and
 * what lies on what. */
(function () {
"use strict";
var faults = [];
function fault(text) { faults.push(text); }
window.addEventListener("error", function (e) { fault("error: " + (e.message || "a resource") + " " + (e.filename || "") + ":" + (e.lineno || "")); }, true);
window.addEventListener("unhandledrejection", function (e) { fault("error: " + e.reason); });
document.addEventListener("securitypolicyviolation", function (e) { fault("request: " + e.violatedDirective + " " + e.blockedURI); });
["error", "warn"].forEach(function (k) {
  var own = console[k];
  console[k] = function () { fault("console." + k + ": " + Array.prototype.join.call(arguments, " ")); own.apply(console, arguments); };
});

/* The boxes of visible text: of text nodes, and of what the page has drawn in canvases; cut off where its table is. */
function boxes() {
  var list = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (var node; (node = walk.nextNode());) {
    var parent = node.parentElement;
    if (!node.textContent.trim() || /^(SCRIPT|STYLE|OPTION|NOSCRIPT)$/.test(parent.tagName) || !parent.checkVisibility()) continue;
    var range = document.createRange(), clip = parent.closest(".scroll");
    range.selectNodeContents(node);
    var edge = clip ? clip.getBoundingClientRect().right : Infinity;
    Array.from(range.getClientRects()).forEach(function (r) {
      if (r.width > 1 && r.left < edge) list.push({ text: node.textContent.trim().slice(0, 30), l: r.left, t: r.top, r: Math.min(r.right, edge), b: r.bottom, clipped: !!clip });
    });
  }
  window.trineReport.drawn.forEach(function (d) {
    var c = d[0].getBoundingClientRect();
    list.push({ text: "canvas: " + d[1], l: c.left + d[2], t: c.top + d[3], r: c.left + d[2] + d[4], b: c.top + d[3] + d[5] });
  });
  return list;
}

/* Lines of text may touch; text that shares more than this many pixels both ways cannot be read. */
var SHARED = 2;
function look() {
  var list = boxes(), wide = document.documentElement.clientWidth;
  list.sort(function (a, b) { return a.t - b.t; });
  list.forEach(function (a, n) {
    if (!a.clipped && (a.r > wide + 1 || a.l < -1)) fault("cut off: " + a.text);
    for (var k = n + 1; k < list.length && list[k].t < a.b - SHARED; k++) {
      var b = list[k];
      if (Math.min(a.r, b.r) - Math.max(a.l, b.l) > SHARED && Math.min(a.b, b.b) - Math.max(a.t, b.t) > SHARED)
        fault("overlap: " + a.text + " / " + b.text);
    }
  });
  if (document.documentElement.scrollWidth > wide + 1) fault("wider than the window: " + document.documentElement.scrollWidth + " > " + wide);
  performance.getEntriesByType("resource").forEach(function (e) { if (!/^data:/.test(e.name)) fault("request: " + e.name); });
  return list.length;
}

/* A table that scrolls says so, by a shadow at its edges and in words; no other does. */
function look_at_tables() {
  document.querySelectorAll(".scroll").forEach(function (box) {
    if (!box.checkVisibility()) return;
    var wide = box.scrollWidth > box.clientWidth + 1, said = box.nextElementSibling, name = box.textContent.slice(0, 30);
    var says = said && /scroll sideways/.test(said.textContent) && said.checkVisibility();
    if (wide) scrolls++;
    if (wide && !says) fault("scrolls without a word: " + name);
    if (wide && !/local/.test(getComputedStyle(box).backgroundAttachment)) fault("scrolls without a shadow: " + name);
    if (!wide && says) fault("does not scroll, and says that it does: " + name);
  });
}
var scrolls = 0;

/* Zooms in, changes axes, steps and colours, prints: what a reader would do. */
function mouse(e, kind, x, y) {
  var r = e.getBoundingClientRect();
  e.dispatchEvent(new MouseEvent(kind, { clientX: r.left + r.width * x, clientY: r.top + y, bubbles: true }));
}
function use() {
  document.querySelectorAll("button").forEach(function (b) { b.click(); });
  document.querySelectorAll("input[type=checkbox]").forEach(function (b) { b.click(); b.click(); });
  document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  document.querySelectorAll("select").forEach(function (s) {
    var before = s.value;
    Array.from(s.options).slice(0, 40).map(function (o) { return o.value; }).concat([before]).forEach(function (v) { s.value = v; s.dispatchEvent(new Event("change")); });
  });
  document.querySelectorAll("canvas, .part").forEach(function (c) {
    [12, 40].forEach(function (y) { ["mousemove", "click", "mouseleave"].forEach(function (k) { mouse(c, k, 0.7, y); }); });
  });
  document.querySelectorAll(".timeline canvas").forEach(function (c) {
    mouse(c, "mousedown", 0.4, 12); mouse(c, "mousemove", 0.6, 12); mouse(c, "mouseup", 0.6, 12);
    mouse(c, "mousemove", 0.5, 12); mouse(c, "dblclick", 0.5, 12); mouse(c, "mouseleave", 0.5, 12);
  });
  ["beforeprint", "afterprint", "resize"].forEach(function (k) { window.dispatchEvent(new Event(k)); });
}

window.addEventListener("load", function () {
  var seconds = performance.now() / 1000;
  setTimeout(function () {
    var texts = 0;
    try { texts = look(); look_at_tables(); use(); look(); } catch (e) { fault("error: " + e.message); }
    setTimeout(function () {
      look_at_tables(); /* after "resize" and "toggle", which are not at once */
      parent.postMessage({ faults: faults, texts: texts, scrolls: scrolls, seconds: seconds, charts: document.querySelectorAll(".plot canvas").length,
        headings: Array.from(document.querySelectorAll("h2")).map(function (h) { return h.textContent; }).join("; ") }, "*");
    }, 200);
  }, 100);
});
})();
