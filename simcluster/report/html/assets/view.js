"use strict";
// What timelines and memory share: a window of time that is zoomed and moved, quantities as text, colours.

const digits = (value) => {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
};

function prefixed(value, base, names) {
  let scale = 0;
  while (Math.abs(value) >= base * (1 - 5e-4) && scale < names.length - 1) {
    value /= base;
    scale++;
  }
  return (scale || value % 1 ? digits(value) : String(Math.trunc(value))) + " " + names[scale];
}

const sizeText = (value) => prefixed(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const volumeText = (value) => prefixed(value, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
const flopsText = (value) => prefixed(value, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);

/** Nanoseconds as people read them. */
function timeText(ns) {
  const size = Math.abs(ns);
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
    if (size >= scale) return digits(ns / scale) + " " + unit;
  return ns ? Math.round(ns) + " ns" : "0 s";
}

/** Round values between two times, about `count` of them, and how they are written. */
function timeTicks(from, to, count) {
  const rough = (to - from) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((factor) => power * factor >= rough) * power);
  const values = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) values.push(value);
  const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, s]) => to >= s) || ["ns", 1];
  const places = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return { values, text: (value) => (value / scale).toFixed(places) + " " + unit };
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** [red, green, blue] of a colour. */
function channels(colour) {
  const probe = channels.probe || (channels.probe = document.createElement("canvas").getContext("2d"));
  probe.fillStyle = colour;
  const text = probe.fillStyle;
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** A window [from, to] on the time from 0 to `end`; `changed` is called when it moves. */
class TimeWindow {
  constructor(end, changed) {
    this.end = Math.max(1, end);
    this.from = 0;
    this.to = this.end;
    this.changed = changed;
  }

  set(from, to) {
    const length = Math.min(this.end, Math.max(to - from, Math.min(20, this.end)));
    this.from = Math.min(Math.max(0, from), this.end - length);
    this.to = this.from + length;
    this.changed();
  }

  /** Shows `factor` times less time; what is at the share `at` of the width stays where it is. */
  zoom(factor, at = 0.5) {
    const length = this.to - this.from, middle = this.from + at * length;
    this.set(middle - (at * length) / factor, middle + ((1 - at) * length) / factor);
  }

  /** Moves by a share of the width. */
  pan(share) {
    const by = share * (this.to - this.from);
    this.set(this.from + by, this.to + by);
  }

  all() {
    this.set(0, this.end);
  }

  /** Shows a block with some time around it. */
  show(start, end) {
    const around = Math.max(end - start, 1) * 2;
    this.set(start - around, end + around);
  }
}

/**
 * Wheel, drag, touch and keys on an element move a window of time. `geometry()` gives left and width, in pixels,
 * of where time is drawn; `clicked(x, y)` is called where the pointer did not move.
 */
function moveByHand(element, view, geometry, clicked) {
  const share = (event) => {
    const { left, width } = geometry(), box = element.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left - left) / width));
  };
  element.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      view.zoom(Math.exp(-event.deltaY * 0.002), share(event));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan((event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) / geometry().width);
    }
  }, { passive: false });
  let held = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("button")) return;
    held = { x: event.clientX, y: event.clientY, at: share(event), from: view.from, to: view.to, moved: false };
    held.length = held.to - held.from;
  });
  element.addEventListener("pointermove", (event) => {
    if (!held || !(event.buttons & 1)) return;
    if (Math.abs(event.clientX - held.x) > 3) {
      if (!held.moved) element.setPointerCapture(event.pointerId);
      held.moved = true;
    }
    if (!held.moved) return;
    const by = ((held.x - event.clientX) / geometry().width) * held.length;
    view.set(held.from + by, held.to + by);
  });
  element.addEventListener("pointerup", (event) => {
    if (held && !held.moved && clicked) {
      const box = element.getBoundingClientRect();
      clicked(event.clientX - box.left, event.clientY - box.top);
    }
    held = null;
  });
  element.addEventListener("pointercancel", () => { held = null; });
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const act = {
      ArrowLeft: () => view.pan(-0.15), ArrowRight: () => view.pan(0.15), a: () => view.pan(-0.15),
      d: () => view.pan(0.15), w: () => view.zoom(1.5), s: () => view.zoom(1 / 1.5), "+": () => view.zoom(1.5),
      "=": () => view.zoom(1.5), "-": () => view.zoom(1 / 1.5), 0: () => view.all(), Home: () => view.all(),
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
}

/** Sizes a canvas for the screen's pixels and gives its context, in CSS pixels. */
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** An element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
