"use strict";
// What a device holds over time, by category, and what is alive at a moment that is chosen.

const LIMIT_COLOUR = "#d9534f";
const MOST_LISTED = 40;

class MemoryChart {
  constructor(host, data) {
    Object.assign(this, { host, data });
    this.view = new TimeWindow(data.end, () => this.later());
    this.bytes = data.classes.map(() => null);
    this.made = data.classes.map(() => null);
    this.chosen = data.first;
    this.moment = null;
    this.build();
  }

  load(index, bytes) {
    this.bytes[index] = bytes;
    if (index === this.chosen) this.later();
  }

  build() {
    this.picker = make("select", { "aria-label": "class of ranks" },
      ...this.data.classes.map((entry, i) => make("option", { value: i }, entry.title)));
    this.picker.value = this.chosen;
    this.picker.addEventListener("change", () => { this.chosen = +this.picker.value; this.moment = null; this.show(); this.later(); });
    const button = (label, title, act) => {
      const element = make("button", { type: "button", title, "aria-label": title }, label);
      element.addEventListener("click", act);
      return element;
    };
    this.canvas = make("canvas", {});
    this.box = make("div", { class: "memory", tabindex: "0", role: "application",
      "aria-label": "memory over time: [ and ] move the moment, arrows move the view, + and - zoom" }, this.canvas);
    this.tip = make("div", { class: "tip", hidden: "" });
    this.alive = make("div", { class: "alive", "aria-live": "polite" });
    const names = this.data.categories;
    this.host.replaceChildren(
      make("div", { class: "tools" }, this.picker, make("span", { class: "grow" }),
        button("peak", "what is alive at the peak", () => this.choose(this.peak())),
        button("−", "zoom out", () => this.view.zoom(1 / 2)), button("+", "zoom in", () => this.view.zoom(2)),
        button("all", "the whole time", () => this.view.all())),
      make("div", { class: "key" }, ...this.data.used.map((c) =>
        make("span", {}, make("i", { style: "background:" + names[c][1] }), names[c][0]))),
      this.box, this.alive, this.tip);
    moveByHand(this.box, this.view, () => ({ left: this.left, width: this.width }), (x) => this.choose(this.momentAt(x)));
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.box.addEventListener("keydown", (event) => {
      const by = { "[": -1, "]": 1, Enter: 0 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      const scale = (this.view.to - this.view.from) / this.width;
      if (this.moment === null || by === 0) this.choose(this.peak());
      else this.choose(this.highest(this.at(this.moment).time + by * 4 * scale, 2 * scale));
    });
    new ResizeObserver(() => this.later()).observe(this.box);
    this.show();
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  /** The changes of the class that is shown, and the levels after each moment at which something changes. */
  account() {
    const index = this.chosen;
    if (this.made[index] || !this.bytes[index]) return this.made[index];
    const count = this.data.classes[index].changes, reader = new ColumnReader(this.bytes[index]);
    const times = reader.sums(count), bytes = reader.numbers(count);
    const buffers = Int32Array.from(reader.sums(count)), categories = Uint8Array.from(reader.numbers(count));
    const many = this.data.categories.length;
    let moments = 0;
    for (let i = 0; i < count; i++) if (i + 1 === count || times[i + 1] !== times[i]) moments++;
    const at = new Float64Array(moments), last = new Int32Array(moments), totals = new Float64Array(moments);
    const levels = Array.from({ length: many }, () => new Float64Array(moments)), now = new Float64Array(many);
    for (let i = 0, place = 0, total = 0; i < count; i++) {
      now[categories[i]] += bytes[i];
      total += bytes[i];
      if (i + 1 < count && times[i + 1] === times[i]) continue;
      at[place] = times[i];
      last[place] = i;
      totals[place] = total;
      for (let c = 0; c < many; c++) levels[c][place] = now[c];
      place++;
    }
    return (this.made[index] = { times, bytes, buffers, categories, at, last, totals, levels });
  }

  peak() {
    const { totals } = this.account();
    let best = 0;
    for (let i = 1; i < totals.length; i++) if (totals[i] > totals[best]) best = i;
    return best;
  }

  at(moment) {
    const made = this.account();
    return { time: made.at[moment], total: made.totals[moment] };
  }

  /** The moment with the highest level around a time. */
  highest(time, around) {
    const { at, totals } = this.account();
    let best = Math.max(0, firstAfter(at, time - around) - 1);
    for (let i = best + 1; i < at.length && at[i] < time + around; i++) if (totals[i] > totals[best]) best = i;
    return best;
  }

  momentAt(x) {
    const scale = (this.view.to - this.view.from) / this.width;
    return this.highest(this.view.from + (x - this.left) * scale, 0.75 * scale);
  }

  draw() {
    const made = this.account();
    if (!made || !this.box.clientWidth) return;
    const entry = this.data.classes[this.chosen], { view, data } = this;
    const wide = this.box.clientWidth, high = this.box.clientHeight;
    const left = (this.left = wide < 560 ? 62 : 84), width = (this.width = wide - left - 10);
    const context = sized(this.canvas, wide, high), ground = high - 22, top = 10;
    context.clearRect(0, 0, wide, high);
    const peak = made.totals[this.peak()];
    const most = Math.max(peak, ...entry.reserved.map(([, level]) => level + entry.outside),
      peak > entry.capacity * 0.4 ? entry.capacity : 0) * 1.04 || 1;
    const y = (bytes) => ground - (bytes / most) * (ground - top);
    const scale = (view.to - view.from) / width;
    let from = Math.max(0, firstAfter(made.at, view.from) - 1);
    for (let x = 0; x < width; x++) {
      const until = view.from + (x + 1) * scale;
      let best = from;
      while (from + 1 < made.at.length && made.at[from + 1] < until) if (made.totals[++from] > made.totals[best]) best = from;
      let base = 0;
      data.categories.forEach(([, colour], c) => {
        const level = made.levels[c][best];
        if (level <= 0) return;
        context.fillStyle = colour;
        const upper = y(base + level);
        context.fillRect(left + x, upper, 1, y(base) - upper);
        base += level;
      });
    }
    context.font = "11px " + css("--font");
    context.textBaseline = "middle";
    context.textAlign = "right";
    const unit = 2 ** Math.floor(Math.log2(most / 4)), step = [1, 2, 4].map((f) => f * unit).find((s) => most / s <= 5) || unit;
    for (let value = 0; value <= most; value += step) {
      context.fillStyle = css("--line");
      context.fillRect(left, Math.round(y(value)), width, 1);
      context.fillStyle = css("--faint");
      if (Math.abs(y(value) - y(entry.capacity)) > 11 || value > most) context.fillText(value ? sizeText(value) : "0", left - 6, y(value));
    }
    context.textAlign = "center";
    const { values, text } = timeTicks(view.from, view.to, Math.max(2, Math.floor(width / 110)));
    for (const value of values) {
      const x = left + (value - view.from) / scale, half = context.measureText(text(value)).width / 2;
      context.fillStyle = css("--faint");
      context.fillText(text(value), Math.min(Math.max(x, left), left + width - half), high - 9);
    }
    this.reserved(context, entry, y, scale);
    if (entry.capacity <= most) {
      context.fillStyle = LIMIT_COLOUR;
      context.fillRect(left, Math.round(y(entry.capacity)) - 1, width, 2);
      context.textAlign = "right";
      context.fillText(sizeText(entry.capacity), left - 6, y(entry.capacity));
    }
    if (this.moment !== null) {
      const x = left + (made.at[this.moment] - view.from) / scale;
      if (x >= left && x <= left + width) {
        context.fillStyle = css("--ink");
        context.fillRect(x - 0.5, top - 4, 1.5, ground - top + 4);
      }
    }
  }

  /** What the allocator has reserved, as a line. */
  reserved(context, entry, y, scale) {
    if (!entry.reserved.length) return;
    context.beginPath();
    context.save();
    context.rect(this.left, 0, this.width, this.box.clientHeight);
    context.clip();
    context.beginPath();
    entry.reserved.forEach(([time, level], i) => {
      const x = this.left + (time * 1e9 - this.view.from) / scale;
      if (i) context.lineTo(x, y(entry.reserved[i - 1][1] + entry.outside)); else context.moveTo(x, y(level + entry.outside));
      context.lineTo(x, y(level + entry.outside));
    });
    context.lineTo(this.left + this.width, y(entry.reserved.at(-1)[1] + entry.outside));
    context.strokeStyle = css("--ink");
    context.lineWidth = 1.25;
    context.setLineDash([5, 3]);
    context.stroke();
    context.restore();
  }

  hover(event) {
    const made = this.account(), box = this.box.getBoundingClientRect(), x = event.clientX - box.left;
    this.tip.hidden = !made || x < this.left || event.buttons > 0;
    if (this.tip.hidden) return;
    const moment = this.momentAt(x), lines = [[timeText(made.at[moment]), sizeText(made.totals[moment])]];
    this.data.categories.forEach(([name], c) => {
      if (made.levels[c][moment] > 0) lines.push([name, sizeText(made.levels[c][moment])]);
    });
    this.tip.replaceChildren(...lines.map(([name, text]) => make("div", {}, make("span", {}, name), text)));
    this.tip.style.left = Math.min(event.clientX + 14, innerWidth - this.tip.offsetWidth - 8) + "px";
    this.tip.style.top = Math.min(event.clientY + 18, innerHeight - this.tip.offsetHeight - 8) + "px";
  }

  choose(moment) {
    if (!this.account()) return;
    this.moment = moment;
    this.show();
    this.later();
  }

  /** Buffers that are alive at the moment, those of all layers together, the largest first. */
  living() {
    const { last, bytes, buffers, categories } = this.account(), held = new Map();
    for (let i = 0; i <= last[this.moment]; i++) {
      const key = buffers[i] * 256 + categories[i];
      const entry = held.get(key) || held.set(key, { bytes: 0, count: 0 }).get(key);
      entry.bytes += bytes[i];
      entry.count += Math.sign(bytes[i]);
    }
    const kinds = new Map();
    for (const [key, { bytes: size, count }] of held) {
      if (size <= 0) continue;
      const name = this.data.buffers[Math.floor(key / 256)].replace(/\b\d+\b/g, "*"), category = key % 256;
      const kind = kinds.get(name + category) || kinds.set(name + category, { name, category, bytes: 0, count: 0 }).get(name + category);
      kind.bytes += size;
      kind.count += Math.max(1, count);
    }
    return [...kinds.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
  }

  show() {
    if (this.moment === null) {
      const missing = this.data.left_out ? ` ${this.data.left_out} more classes of ranks, which hold less, are not in this file.` : "";
      this.alive.replaceChildren(make("p", { class: "note" }, "Click, or press Enter here, to see what is alive at a moment." + missing));
      return;
    }
    const living = this.living(), { time, total } = this.at(this.moment);
    const row = (kind) => {
      const [name, colour] = this.data.categories[kind.category];
      return make("tr", {}, make("td", {}, make("i", { style: "background:" + colour, title: name }), " " + kind.name),
        make("td", {}, name), make("td", { class: "n" }, kind.count.toLocaleString("en-US")),
        make("td", { class: "n" }, sizeText(kind.bytes)), make("td", { class: "n" }, ((100 * kind.bytes) / total).toFixed(1) + " %"));
    };
    const rest = living.slice(MOST_LISTED);
    const more = rest.length ? [make("tr", {}, make("td", { colspan: 3 }, `${rest.length} more`),
      make("td", { class: "n" }, sizeText(rest.reduce((sum, kind) => sum + kind.bytes, 0))), make("td", {}))] : [];
    this.alive.replaceChildren(
      make("p", {}, make("b", {}, sizeText(total)), ` alive at ${timeText(time)}, ${this.data.classes[this.chosen].title}`),
      make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {},
        ...[["buffer", ""], ["category", ""], ["buffers", "n"], ["size", "n"], ["share", "n"]].map(([title, kind]) =>
          make("th", { scope: "col", class: kind || null }, title)))), make("tbody", {}, ...living.slice(0, MOST_LISTED).map(row), ...more))));
  }
}
