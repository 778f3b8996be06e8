"use strict";
// Puts the page together: what is first seen first, the rest piece by piece.

const report = {}; // what is on the page, for those who look at it from the browser's console

/** A timeline in the element `key`, from the pieces `key` and `part.0`, `part.1` ... */
async function showTimeline(key, part, about) {
  const host = document.getElementById(key + "-view");
  const data = host && await unpackDocument(key);
  if (!data) return null;
  data.kind_bytes = await unpackBytes(key + ".kinds");
  data.context_bytes = await unpackBytes(key + ".contexts");
  data.rank_bytes = await unpackBytes("ranks");
  const timeline = new Timeline(host, data, about);
  timeline.layRows();
  for (let group = 0; group < data.groups.length; group++) timeline.load(group, await unpackBytes(`${part}.${group}`));
  timeline.layRows();
  return timeline;
}

async function showMemory() {
  const host = document.getElementById("memory-view"), data = host && await unpackDocument("memory");
  if (!data) return null;
  const chart = new MemoryChart(host, data);
  chart.load(data.first, await unpackBytes("changes." + data.first));
  for (let i = 0; i < data.classes.length; i++) if (i !== data.first) chart.load(i, await unpackBytes("changes." + i));
  return chart;
}

async function showMatrix() {
  const host = document.getElementById("matrix-view"), data = host && await unpackDocument("matrix");
  if (!data) return null;
  return new Matrix(host, data, new ColumnReader(await unpackBytes("matrix.bytes")).numbers(data.size * data.size));
}

function redraw() {
  for (const view of [report.timeline, report.schedule]) view?.recolour();
  report.memory?.later();
  report.matrix?.draw();
}

function themes() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = () => { button.textContent = dark() ? "light" : "dark"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; say(); redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { say(); redraw(); });
  say();
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    for (const view of [report.timeline, report.schedule]) if (view) {
      view.box.style.maxHeight = "2400px";
      view.recolour();
      view.draw();
    }
    report.memory?.draw();
    report.matrix?.draw();
  });
  addEventListener("afterprint", () => {
    for (const view of [report.timeline, report.schedule]) if (view) view.box.style.maxHeight = "";
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    redraw();
  });
}

/** Says instead of the timelines why they cannot be shown. */
function refuse(reason) {
  document.querySelector("main").prepend(make("p", { class: "warning near", role: "alert" },
    make("b", {}, "Timelines, memory over time and layouts cannot be shown: "), reason));
}

report.ready = (async () => {
  themes();
  if (typeof DecompressionStream === "undefined")
    return refuse("this browser cannot unpack data; Chrome 111, Firefox 113, Safari 16.4 and later can.");
  const layouts = (report.layouts = new Layouts(await unpackDocument("layouts") || []));
  report.timeline = await showTimeline("timeline", "spans", (operator) => layouts.lines(operator));
  report.memory = await showMemory();
  report.matrix = await showMatrix();
  report.schedule = await showTimeline("schedule", "slots", null);
  const list = document.getElementById("layouts-view");
  if (list) layouts.list(list);
  document.documentElement.dataset.ready = "yes";
})();
