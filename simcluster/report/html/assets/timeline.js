"use strict";
// Rows of blocks over time on a canvas: a group of rows for each class of ranks, which unfolds to its ranks.
//
// A row is painted pixel by pixel: each block adds its colour to the pixels that it covers, in proportion. So a
// block of a pixel or more is drawn as it is, and those below one pixel share it: none is left out. A pixel that
// is covered at all has a fifth of the colour at least, so that what is short is seen.

const ROW = 17, GAP = 3, HEAD = 24, AXIS = 22;
const PALEST = 0.2;
const FAINT = 0.14; // what is left of blocks that a search does not look for

class Timeline {
  /** `data` is the piece of data, `columns` gives the bytes of each group, `about` lines of text on a block. */
  constructor(host, data, about) {
    Object.assign(this, { host, data, about });
    this.view = new TimeWindow(data.end, () => this.later());
    this.tracks = data.groups.map(() => []);
    this.open = new Set();
    this.selected = null; // { row, index }
    this.hovered = null;
    this.row = 0;
    this.query = "";
    this.found = 0;
    this.kinds = this.readKinds();
    this.build();
    this.recolour();
  }

  readKinds() {
    const { data } = this;
    const columns = (bytes, count, names) => {
      const reader = new ColumnReader(bytes);
      return Object.fromEntries(names.map((name) => [name, reader.numbers(count)]));
    };
    this.kindOf = columns(data.kind_bytes, data.kind_colours.length, ["operator", "kind", "graph"]);
    this.placeOf = columns(data.context_bytes, data.context_colours.length, ["action", "micro_batch", "step"]);
    return data.kind_colours.length;
  }

  /** Takes the blocks of a group. */
  load(group, bytes) {
    const reader = new ColumnReader(bytes);
    this.tracks[group] = this.data.groups[group].tracks.map(([name, count]) => {
      const track = readTrack(reader, count);
      track.name = name;
      track.colours = new Uint8Array(count);
      const { kind_colours: ofKind, context_colours: ofContext } = this.data;
      for (let i = 0; i < count; i++) {
        const own = ofKind[track.kinds[i]];
        track.colours[i] = own >= 0 ? own : ofContext[track.contexts[i]] ?? 0;
      }
      return track;
    });
    this.layRows();
    if (this.query) this.search(this.query);
    this.later();
  }

  build() {
    const unit = this.data.unit === "ns";
    this.text = unit ? timeText : (value) => digits(value).replace(/\.00$/, "") + " units";
    this.input = make("input", { type: "search",
      placeholder: unit ? "search operators, such as attention or all_gather" : "search actions, such as F3",
      "aria-label": "search blocks by name", spellcheck: "false" });
    this.count = make("output", { class: "count" });
    const button = (label, title, act) => {
      const element = make("button", { type: "button", title, "aria-label": title }, label);
      element.addEventListener("click", act);
      return element;
    };
    this.tools = make("div", { class: "tools" }, this.input,
      button("next", "next match", () => this.next()), this.count, make("span", { class: "grow" }),
      button("−", "zoom out", () => this.view.zoom(1 / 2)), button("+", "zoom in", () => this.view.zoom(2)),
      button("◂", "earlier", () => this.view.pan(-0.3)), button("▸", "later", () => this.view.pan(0.3)),
      button("all", "the whole time", () => this.view.all()));
    this.canvas = make("canvas", {});
    this.heads = make("div", { class: "heads" });
    this.space = make("div", { class: "space" }, make("div", { class: "stuck" }, this.canvas), this.heads);
    this.box = make("div", { class: "timeline", tabindex: "0", role: "application",
      "aria-label": "timeline: arrows move, + and - zoom, [ and ] go from block to block, up and down from row to row" },
      this.space);
    this.tip = make("div", { class: "tip", hidden: "" });
    this.status = make("p", { class: "note status" });
    this.details = make("div", { class: "picked", "aria-live": "polite" });
    this.host.replaceChildren(this.tools, this.legend(), this.box, this.status, this.details, this.tip);
    this.input.addEventListener("input", () => this.search(this.input.value));
    this.input.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); });
    this.box.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => { this.layRows(); this.later(); }).observe(this.box);
    moveByHand(this.box, this.view, () => ({ left: this.gutter, width: this.width }), (x, y) => this.pick(x, y));
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => this.point(null));
    this.box.addEventListener("dblclick", () => this.selected && this.zoomToSelected());
    this.box.addEventListener("keydown", (event) => this.keys(event));
  }

  legend() {
    return make("div", { class: "key" }, ...Object.entries(this.data.legend).map(([name, colour]) =>
      make("span", {}, make("i", { style: "background:" + colour }), name)));
  }

  /** The ranks of a class. */
  ranksOf(index) {
    const ranks = [];
    this.classOfRank ||= new ColumnReader(this.data.rank_bytes).numbers(this.data.num_ranks);
    this.classOfRank.forEach((own, rank) => { if (own === index) ranks.push(rank); });
    return ranks;
  }

  /** Which rows there are, from top to bottom, and where. */
  layRows() {
    const rows = [];
    let y = AXIS;
    this.data.groups.forEach((group, number) => {
      const add = (rank) => this.tracks[number].forEach((track) => {
        rows.push({ kind: "track", group: number, track, rank, y });
        y += ROW + GAP;
      });
      if (group.tracks.length === 1) {
        this.tracks[number].forEach((track) => {
          rows.push({ kind: "track", group: number, track, label: group.title, y });
          y += ROW + GAP;
        });
        return;
      }
      rows.push({ kind: "head", group: number, y });
      y += HEAD;
      add(null);
      if (this.open.has(number)) for (const rank of this.ranksOf(group.class)) {
        rows.push({ kind: "rank", group: number, rank, y });
        y += HEAD - 4;
        add(rank);
      }
    });
    this.rows = rows;
    this.total = y + 4;
    this.space.style.height = this.total + "px";
    const box = this.box.clientWidth;
    this.gutter = box < 560 ? 84 : 150;
    this.width = Math.max(60, box - this.gutter - 4);
    this.height = Math.min(this.box.clientHeight || 0, this.total) || Math.min(this.total, 480);
  }

  recolour() {
    this.ink = css("--ink");
    this.faint = css("--faint");
    this.line = css("--line");
    this.ground = channels(css("--ground"));
    this.colours = this.data.palette.map(channels);
    this.later();
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  /** The first row that ends below a height. */
  firstRow(y) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].y + HEAD <= y) low = middle + 1; else high = middle;
    }
    return low;
  }

  draw() {
    if (!this.rows || !this.box.clientWidth) return;
    const { view, gutter, width } = this, top = this.box.scrollTop;
    const height = this.box.clientHeight;
    const context = sized(this.canvas, gutter + width, height);
    context.clearRect(0, 0, gutter + width, height);
    const shown = [];
    for (let i = this.firstRow(top + AXIS); i < this.rows.length && this.rows[i].y < top + height; i++)
      shown.push(this.rows[i]);
    const tracks = shown.filter((row) => row.kind === "track");
    this.drawn = this.narrow = 0;
    this.axis(context, height, false);
    this.paint(context, tracks, top);
    this.write(context, tracks, top);
    this.axis(context, height, true);
    this.label(context, shown, top);
    if (this.selected) this.frame(context, this.selected, top, 2);
    if (this.hovered) this.frame(context, this.hovered, top, 1);
    this.say();
  }

  /** All blocks of the rows: a line of pixels for each, stretched to the height of a row. */
  paint(context, rows, top) {
    const ratio = window.devicePixelRatio || 1, across = Math.max(1, Math.round(this.width * ratio));
    if (!rows.length) return;
    const strip = this.strip || (this.strip = document.createElement("canvas"));
    const high = Math.max(strip.height, rows.length);
    if (strip.width !== across || strip.height !== high) {
      strip.width = across;
      strip.height = high;
      this.image = null;
    }
    const to = strip.getContext("2d");
    const image = this.image || (this.image = to.createImageData(across, high));
    if (!this.sums || this.sums.length !== across * 4) this.sums = new Float32Array(across * 4);
    const pixels = new Uint32Array(image.data.buffer), [r0, g0, b0] = this.ground;
    const lines = new Map(), sums = this.sums;
    rows.forEach((row) => {
      let line = lines.get(row.track);
      if (line === undefined) {
        line = lines.size;
        lines.set(row.track, line);
        sums.fill(0);
        this.add(row.track, across, sums);
        for (let x = 0, from = line * across; x < across; x++) {
          const covered = sums[4 * x + 3], a = covered > 0 ? Math.min(1, PALEST + (1 - PALEST) * covered) : 0;
          const scale = covered > 0 ? a / covered : 0, rest = 1 - a;
          const r = sums[4 * x] * scale + r0 * rest, g = sums[4 * x + 1] * scale + g0 * rest;
          const b = sums[4 * x + 2] * scale + b0 * rest;
          pixels[from + x] = 0xff000000 | (b << 16) | (g << 8) | r;
        }
      }
    });
    to.putImageData(image, 0, 0, 0, 0, across, lines.size);
    context.imageSmoothingEnabled = false;
    for (const row of rows)
      context.drawImage(strip, 0, lines.get(row.track), across, 1, this.gutter, row.y - top, this.width, ROW);
  }

  /** Adds the colours of a track's blocks to the pixels that they cover. */
  add(track, across, sums) {
    const { from, to } = this.view, scale = across / (to - from), { starts, ends, colours, matches } = track;
    const palette = this.colours;
    for (let i = firstAfter(ends, from); i < starts.length && starts[i] < to; i++) {
      const left = Math.max(0, (starts[i] - from) * scale), right = Math.min(across, (ends[i] - from) * scale);
      const [r, g, b] = palette[colours[i]];
      const whole = matches && !matches[i] ? FAINT : 1;
      const first = left | 0, last = Math.min(across - 1, right | 0);
      this.drawn++;
      if (right - left < 1) this.narrow++;
      if (first === last) {
        const part = (right - left) * whole, at = 4 * first;
        sums[at] += r * part; sums[at + 1] += g * part; sums[at + 2] += b * part; sums[at + 3] += part;
        continue;
      }
      // A hair of ground at the end of a wide block keeps it apart from the next.
      const end = right - left > 4 ? right - 0.6 : right;
      for (let x = first; x <= last; x++) {
        const part = (Math.min(x + 1, end) - Math.max(x, left)) * whole, at = 4 * x;
        if (part <= 0) continue;
        sums[at] += r * part; sums[at + 1] += g * part; sums[at + 2] += b * part; sums[at + 3] += part;
      }
    }
  }

  /** Names in blocks that have room for them. */
  write(context, rows, top) {
    const { from, to } = this.view, scale = this.width / (to - from);
    context.font = "11px " + css("--font");
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = "#16181b";
    let left = 4000; // more names than these are no help
    for (const row of rows) {
      const { starts, ends, kinds, contexts, matches } = row.track;
      for (let i = firstAfter(ends, from); i < starts.length && starts[i] < to && left; i++) {
        const wide = (Math.min(ends[i], to) - Math.max(starts[i], from)) * scale;
        if (wide < 26 || (matches && !matches[i])) continue;
        const text = this.shortName(kinds[i], contexts[i]), room = Math.floor((wide - 6) / 6.1);
        const fitting = text.length <= room ? text : room >= 5 ? text.slice(0, room - 1) + "…" : "";
        if (!fitting) continue;
        context.fillText(fitting, this.gutter + (Math.max(starts[i], from) - from) * scale + 3, row.y - top + ROW / 2 + 0.5);
        left--;
      }
    }
  }

  /** Lines behind the rows, or times above them. */
  axis(context, height, above) {
    const { view, gutter, width } = this;
    if (above) {
      context.fillStyle = `rgb(${this.ground})`;
      context.fillRect(0, 0, gutter + width, AXIS - 2);
    }
    context.font = "11px " + css("--font");
    context.textBaseline = "middle";
    context.textAlign = "center";
    const count = Math.max(2, Math.floor(width / 110));
    const { values, text } = this.data.unit === "ns" ? timeTicks(view.from, view.to, count)
      : { values: timeTicks(view.from, view.to, count).values, text: (value) => String(value) };
    for (const value of values) {
      const x = gutter + ((value - view.from) / (view.to - view.from)) * width;
      context.fillStyle = this.line;
      context.fillRect(Math.round(x), AXIS - 6, 1, above ? 4 : height);
      if (!above) continue;
      context.fillStyle = this.faint;
      const label = text(value), half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(Math.max(x, gutter + half), gutter + width - half), 8);
    }
  }

  /** Names of rows on the canvas, and of groups as buttons above it. */
  label(context, rows, top) {
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.font = "11px " + css("--font");
    const buttons = [];
    for (const row of rows) {
      const y = row.y - top;
      if (row.kind === "track") {
        const here = this.rows[this.row] === row && document.activeElement === this.box;
        context.fillStyle = here ? this.ink : this.faint;
        const room = Math.floor((this.gutter - 16) / 6), name = row.label || row.track.name;
        context.fillText(name.length > room ? name.slice(0, room - 1) + "…" : name, 12, y + ROW / 2);
        if (here) context.fillText("▸", 2, y + ROW / 2);
      } else {
        const group = this.data.groups[row.group];
        if (y < AXIS - 8) continue;
        if (row.kind === "rank") {
          context.fillStyle = this.ink;
          context.fillText("rank " + row.rank, 6, y + 10);
        } else buttons.push([group, row, y]);
      }
    }
    this.heads.style.transform = "translateY(" + top + "px)";
    const keys = buttons.map(([, row, y]) => row.group + ":" + y + ":" + this.open.has(row.group)).join();
    if (keys === this.headKeys) return;
    this.headKeys = keys;
    const focused = document.activeElement?.dataset?.group;
    this.heads.replaceChildren(...buttons.map(([group, row, y]) => this.head(group, row, y)));
    if (focused !== undefined) this.heads.querySelector(`[data-group="${focused}"]`)?.focus();
  }

  head(group, row, y) {
    const open = this.open.has(row.group), many = group.ranks > 1;
    const said = !group.members ? group.title : `${group.title} · ${many ? `ranks ${group.members} (${group.ranks})` : `rank ${group.members}`} · ${group.device}`;
    const element = make(many ? "button" : "span", {
      "data-group": row.group, style: `top:${y}px`, ...(many ? { type: "button", "aria-expanded": String(open),
        title: open ? "hide the single ranks" : "show every rank" } : {}) }, (many ? (open ? "▾ " : "▸ ") : "") + said);
    if (many) element.addEventListener("click", () => this.toggle(row.group));
    return element;
  }

  /** Shows or hides the ranks of a class. */
  toggle(group) {
    if (!this.open.delete(group)) this.open.add(group);
    this.layRows();
    this.headKeys = null;
    this.later();
  }

  frame(context, { row, index }, top, thick) {
    const { starts, ends } = row.track, { view, gutter, width } = this, scale = width / (view.to - view.from);
    const left = Math.max(0, (starts[index] - view.from) * scale), right = Math.min(width, (ends[index] - view.from) * scale);
    if (right < 0 || left > width || !this.rows.includes(row)) return;
    if (row.y - top < AXIS - 4) return;
    context.strokeStyle = this.ink;
    context.lineWidth = thick;
    context.strokeRect(gutter + left - 1, row.y - top - 1, Math.max(2, right - left + 2), ROW + 2);
  }

  say() {
    const known = this.tracks.filter((tracks) => tracks.length).length, wanted = this.data.groups.length;
    const thin = this.narrow
      ? `; ${this.narrow.toLocaleString("en-US")} are narrower than a pixel and share it (in paler colours; none is left out)` : "";
    const [classes, spans] = this.data.left_out;
    const missing = classes ? ` ${classes.toLocaleString("en-US")} more classes of ranks (${spans.toLocaleString("en-US")} spans) are not in this file.` : "";
    this.status.textContent = known < wanted ? `reading class ${known + 1} of ${wanted}…`
      : `${this.drawn.toLocaleString("en-US")} blocks in view, ${this.text(this.view.to - this.view.from)} wide${thin}.${missing}`;
  }

  rowAt(y) {
    const at = y + this.box.scrollTop;
    if (y < AXIS - 4) return null;
    for (let i = this.firstRow(at); i < this.rows.length && this.rows[i].y <= at; i++)
      if (this.rows[i].kind === "track" && at < this.rows[i].y + ROW) return this.rows[i];
    return null;
  }

  /** The block at a place, or the nearest within three pixels. */
  blockAt(x, y) {
    const row = this.rowAt(y);
    if (!row || x < this.gutter) return null;
    const { view, width } = this, scale = (view.to - view.from) / width;
    const time = view.from + (x - this.gutter) * scale, { starts, ends } = row.track;
    const index = firstAfter(ends, time);
    let best = null;
    for (const at of [index - 1, index]) {
      if (at < 0 || at >= starts.length) continue;
      const off = Math.max(starts[at] - time, time - ends[at], 0) / scale;
      if (off <= 3 && (!best || off < best.off)) best = { row, index: at, off };
    }
    return best;
  }

  hover(event) {
    if (event.buttons) return this.point(null);
    const box = this.box.getBoundingClientRect();
    const block = this.blockAt(event.clientX - box.left, event.clientY - box.top);
    return this.point(block, event.clientX, event.clientY);
  }

  point(block, x, y) {
    if (!block && !this.hovered) return;
    this.hovered = block;
    this.tip.hidden = !block;
    if (block) {
      this.tip.replaceChildren(...this.lines(block).map(([name, text]) =>
        make("div", {}, name ? make("span", {}, name) : null, text)));
      const wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
      this.tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - wide - 8)) + "px";
      this.tip.style.top = (y + 18 + high > innerHeight ? y - high - 10 : y + 18) + "px";
    }
    this.later();
  }

  shortName(kind, place) {
    const operator = this.data.operators[this.kindOf.operator[kind]];
    const name = operator.replace(/^[a-z_]+\.\d+\./, "");
    return name || this.action(place);
  }

  action(place) {
    return place >= 0 ? this.data.actions[this.placeOf.action[place]] : "";
  }

  /** What is said of a block, as [what, text]. */
  lines({ row, index }) {
    const { track } = row, kind = track.kinds[index], place = track.contexts[index], { data } = this;
    const operator = data.operators[this.kindOf.operator[kind]], sort = data.kinds[this.kindOf.kind[kind]];
    const length = track.ends[index] - track.starts[index];
    const lines = [["", sort === "wait" ? "waits for " + operator : operator],
      ["", `${this.text(length)}, from ${this.text(track.starts[index])} to ${this.text(track.ends[index])}`]];
    if (place >= 0) {
      const batch = this.placeOf.micro_batch[place], step = data.steps > 1 ? `, step ${this.placeOf.step[place]}` : "";
      lines.push(["in", this.action(place) + (batch >= 0 ? `, micro-batch ${batch}` : "") + step]);
    }
    const [bytes, flops] = [data.sizes[0][kind], data.sizes[1][kind]];
    if (bytes) lines.push(["bytes", volumeText(bytes) + (sort === "compute" ? " read and written"
      : length > 0 ? ` (${volumeText(bytes / (length * 1e-9))}/s)` : "")]);
    if (flops) lines.push(["arithmetic", flopsText(flops) + (length > 0 ? ` (${flopsText(flops / (length * 1e-9))}/s)` : "")]);
    const group = data.groups[row.group];
    if (row.rank !== null && row.rank !== undefined) lines.push(["on", `rank ${row.rank}, ${group.device}`]);
    else if (group.members) lines.push(["on", `${group.title}, ${group.ranks > 1 ? "ranks" : "rank"} ${group.members}`]);
    return [...lines, ...(this.about && !["wait", "action", "critical kernels", "critical transfers"].includes(sort) ? this.about(operator) : [])];
  }

  pick(x, y) {
    this.select(this.blockAt(x, y));
  }

  select(block) {
    this.selected = block && { row: block.row, index: block.index };
    if (block) this.row = this.rows.indexOf(block.row);
    this.details.replaceChildren(...(block ? this.lines(block).map(([name, text]) =>
      make("div", {}, name ? make("span", {}, name) : null, text)) : []));
    this.later();
  }

  zoomToSelected() {
    const { row, index } = this.selected;
    this.view.show(row.track.starts[index], row.track.ends[index]);
  }

  keys(event) {
    if (event.target.tagName === "BUTTON" || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.moveRow(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "[" || event.key === "]") this.step(event.key === "]" ? 1 : -1);
    else if (event.key === "Enter") {
      if (this.selected) this.zoomToSelected();
    } else if (event.key === "e") this.toggle(this.rows[this.row]?.group ?? 0);
    else if (event.key === "/") {
      event.preventDefault();
      this.input.focus();
    } else if (event.key === "n") this.next();
    else if (event.key === "Escape") this.select(null);
  }

  moveRow(by) {
    let at = this.row;
    do at += by; while (this.rows[at] && this.rows[at].kind !== "track");
    if (!this.rows[at]) return;
    this.row = at;
    this.reveal(this.rows[at]);
    const block = this.nearest(this.rows[at]);
    this.select(block);
  }

  /** The block of a row in the middle of the view, or the one that was selected in time. */
  nearest(row) {
    const { starts } = row.track;
    if (!starts.length) return null;
    const before = this.selected;
    const time = before ? before.row.track.starts[before.index] : (this.view.from + this.view.to) / 2;
    return { row, index: Math.min(starts.length - 1, firstAfter(row.track.ends, time)) };
  }

  /** Selects the next block of the row. */
  step(by) {
    const row = this.rows[this.row]?.kind === "track" ? this.rows[this.row] : this.rows.find((other) => other.kind === "track");
    if (!row) return;
    const here = this.selected?.row === row;
    const index = here ? this.selected.index + by : this.nearest(row).index;
    if (index < 0 || index >= row.track.starts.length) return;
    this.select({ row, index });
    this.bring(row.track.starts[index], row.track.ends[index]);
  }

  /** Moves the view where a block is not in it. */
  bring(start, end) {
    if (end < this.view.from || start > this.view.to) {
      const half = (this.view.to - this.view.from) / 2;
      this.view.set((start + end) / 2 - half, (start + end) / 2 + half);
    }
  }

  reveal(row) {
    const top = this.box.scrollTop, height = this.box.clientHeight;
    if (row.y < top + AXIS) this.box.scrollTop = row.y - AXIS - HEAD;
    else if (row.y + ROW > top + height) this.box.scrollTop = row.y + ROW - height + GAP;
  }

  /** Dims what is not called so: a text in the operator's name, its kind, its piece or its action. */
  search(query) {
    this.query = query.trim().toLowerCase();
    this.found = 0;
    const { data, kindOf, placeOf } = this, wanted = this.query;
    const fits = (text) => text.toLowerCase().includes(wanted);
    const names = wanted ? data.operators.map(fits) : null, sorts = wanted ? data.kinds.map(fits) : null;
    const actions = wanted ? data.actions.map((text) => text.toLowerCase() === wanted) : null;
    const kinds = names && Uint8Array.from(kindOf.operator, (name, i) => names[name] || sorts[kindOf.kind[i]]);
    const places = names && Uint8Array.from(placeOf.action, (action) => actions[action]);
    for (const tracks of this.tracks) for (const track of tracks) {
      track.matches = null;
      if (!names) continue;
      const matches = new Uint8Array(track.kinds.length);
      for (let i = 0; i < matches.length; i++)
        this.found += matches[i] = kinds[track.kinds[i]] || (track.contexts[i] >= 0 && places[track.contexts[i]]) ? 1 : 0;
      track.matches = matches;
    }
    this.count.textContent = wanted ? `${this.found.toLocaleString("en-US")} blocks` : "";
    this.later();
  }

  /** Selects the next block that the search looks for, row after row. */
  next(by = 1) {
    if (!this.found) return;
    const rows = this.rows.filter((row) => row.kind === "track" && (row.rank === null || row.rank === undefined));
    let at = Math.max(0, rows.findIndex((row) => row.track === this.selected?.row.track));
    let index = this.selected && rows[at].track === this.selected.row.track ? this.selected.index + by : by > 0 ? 0 : Infinity;
    for (let tried = 0; tried <= rows.length; tried++) {
      const { matches } = rows[at].track;
      for (index = Math.min(index, matches.length - 1); index >= 0 && index < matches.length; index += by)
        if (matches[index]) {
          const row = rows[at];
          this.select({ row, index });
          this.reveal(row);
          this.bring(row.track.starts[index], row.track.ends[index]);
          return;
        }
      at = (at + by + rows.length) % rows.length;
      index = by > 0 ? 0 : Infinity;
    }
  }
}

/** The first place whose value is above `value`, in rising values. */
function firstAfter(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}
