"use strict";
// Who sends how much to whom: a cell for each pair of (runs of) ranks, darker for more, on a logarithmic scale.

class Matrix {
  constructor(host, data, bytes) {
    Object.assign(this, { host, data, bytes });
    this.most = bytes.reduce((most, value) => Math.max(most, value), 0);
    this.least = bytes.reduce((least, value) => (value > 0 && value < least ? value : least), this.most);
    this.floor = Math.max(this.least, this.most / 1e5); // what is less is as pale as this
    this.cell = null;
    this.canvas = make("canvas", {});
    this.box = make("div", { class: "matrix", tabindex: "0", role: "application",
      "aria-label": "bytes between ranks: arrow keys go from cell to cell" }, this.canvas);
    this.said = make("p", { class: "note", "aria-live": "polite" });
    const shades = [0.08, 0.3, 0.55, 0.8, 1].map((share) =>
      make("span", {}, make("i", { style: `background:${this.shade(share)}` }), share === 0.08 ? (this.floor > this.least ? "up to " : "") + volumeText(this.floor) : share === 1 ? volumeText(this.most) : ""));
    host.replaceChildren(make("div", { class: "key" }, make("span", {}, "least "), ...shades, make("span", {}, " most")), this.box, this.said);
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.box.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect(), { left, step } = this.place;
      const to = Math.floor((event.clientX - box.left - left) / step), from = Math.floor((event.clientY - box.top - 2) / step);
      this.choose(from, to);
    });
    this.box.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!by) return;
      event.preventDefault();
      const [from, to] = this.cell || [0, -1];
      this.choose(from + by[0], to + by[1]);
    });
    this.draw();
    this.choose(null);
  }

  shade(share) {
    return `color-mix(in srgb, #d1495b ${Math.round(100 * share)}%, var(--soft))`;
  }

  /** The share of the scale of a number of bytes: logarithmic, 0 for none. */
  share(bytes) {
    if (bytes <= 0) return 0;
    const range = Math.log(this.most / this.floor);
    return range ? 0.08 + 0.92 * Math.max(0, Math.log(bytes / this.floor) / range) : 1;
  }

  draw() {
    const { size } = this.data, wide = Math.min(this.box.clientWidth, 560), left = 46;
    if (wide < 60) return;
    const step = (wide - left - 2) / size;
    this.place = { left, step };
    const context = sized(this.canvas, wide, step * size + 20), soft = channels(css("--soft")), full = channels("#d1495b");
    context.clearRect(0, 0, wide, step * size + 20);
    for (let from = 0; from < size; from++) for (let to = 0; to < size; to++) {
      const share = this.share(this.bytes[from * size + to]);
      context.fillStyle = `rgb(${soft.map((part, i) => Math.round(part + (full[i] - part) * share))})`;
      context.fillRect(left + to * step, 2 + from * step, step - (step > 4 ? 0.6 : 0), step - (step > 4 ? 0.6 : 0));
    }
    context.fillStyle = css("--faint");
    context.font = "11px " + css("--font");
    context.textBaseline = "middle";
    const every = Math.ceil(size / 8);
    for (let at = 0; at < size; at += every) {
      context.textAlign = "right";
      context.fillText(String(at * this.data.ranks_per_cell), left - 5, 2 + (at + 0.5) * step);
      context.textAlign = "center";
      context.fillText(String(at * this.data.ranks_per_cell), left + (at + 0.5) * step, step * size + 11);
    }
    if (this.cell) {
      context.strokeStyle = css("--ink");
      context.strokeRect(left + this.cell[1] * step - 0.5, 2 + this.cell[0] * step - 0.5, step, step);
    }
  }

  ranks(cell) {
    const { ranks_per_cell: many, ranks } = this.data, first = cell * many, last = Math.min(ranks, first + many) - 1;
    return first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
  }

  choose(from, to) {
    const { size } = this.data;
    if (from === null || from < 0 || to < 0 || from >= size || to >= size) {
      if (from === null) this.said.textContent = "Point at a cell, or go to one with arrow keys.";
      return;
    }
    this.cell = [from, to];
    const bytes = this.bytes[from * size + to];
    this.said.textContent = from === to && this.data.ranks_per_cell > 1
      ? `${this.ranks(from)}: ${bytes ? volumeText(bytes) : "nothing"} among themselves`
      : `${this.ranks(from)} to ${this.ranks(to)}: ${bytes ? volumeText(bytes) : "nothing"} a step`;
    this.draw();
  }
}
