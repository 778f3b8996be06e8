"use strict";
// The layouts of every operator: as a list that can be searched, and for the timeline.

class Layouts {
  constructor(blocks) {
    this.blocks = blocks;
    this.blockOf = new Map();
    for (const block of blocks) {
      block.byName = new Map(block.nodes.map((node) => [node.name, node]));
      for (const name of block.names) this.blockOf.set(name, block);
    }
  }

  /** The entry of an operator by its full name, such as layers.3.mlp.up; null if there is none. */
  of(operator) {
    for (let at = operator.lastIndexOf("."); at > 0; at = operator.lastIndexOf(".", at - 1)) {
      const node = this.blockOf.get(operator.slice(0, at))?.byName.get(operator.slice(at + 1));
      if (node) return node;
    }
    return null;
  }

  /** Lines on an operator for the timeline. */
  lines(operator) {
    const node = this.of(operator);
    if (!node) return [];
    const side = (values) => values.slice(0, 4).map(([name, layout]) => `${name} ${layout}`).join(", ") + (values.length > 4 ? ", …" : "");
    const lines = [["is", node.kind]];
    if (node.strategy) lines.push(["split", node.strategy]);
    if (node.inputs.length) lines.push(["from", side(node.inputs)]);
    if (node.outputs.length) lines.push(["to", side(node.outputs)]);
    if (node.why) lines.push(["because", node.why]);
    return lines;
  }

  /** The list, block by block, in an element. */
  list(host) {
    const filter = make("input", { type: "search", placeholder: "filter, such as attention or all_reduce", "aria-label": "filter operators" });
    const blocks = this.blocks.map((block) => {
      const rows = block.nodes.map((node) => {
        const side = (values) => values.flatMap(([name, layout], i) =>
          [i ? document.createElement("br") : null, make("span", { class: "dim" }, name + " "), layout]);
        const how = node.why !== undefined ? `${volumeText(node.bytes)}${node.seconds ? " in " + timeText(node.seconds * 1e9) : ""}; ${node.why}`
          : [node.strategy, node.source].filter(Boolean).join("; ");
        const row = make("tr", {}, make("td", {}, make("b", {}, node.name)), make("td", {}, node.phase), make("td", {}, node.kind),
          make("td", {}, ...side(node.inputs)), make("td", {}, ...side(node.outputs)), make("td", {}, how));
        row.words = [node.name, node.kind, node.phase, how].join(" ").toLowerCase();
        return row;
      });
      const box = make("details", {}, make("summary", {}, make("b", {}, block.instances), ` block ${block.block}, ${rows.length} operators`),
        make("div", { class: "scroll" }, make("table", { class: "top" }, make("thead", {}, make("tr", {},
          ...["operator", "phase", "is", "inputs", "outputs", "strategy, or what moves and why"].map((title) => make("th", { scope: "col" }, title)))),
          make("tbody", {}, ...rows))));
      return { box, rows };
    });
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      for (const { box, rows } of blocks) {
        let shown = 0;
        for (const row of rows) shown += (row.hidden = wanted && !row.words.includes(wanted)) ? 0 : 1;
        box.hidden = !shown;
        box.open = Boolean(wanted && shown);
      }
    });
    host.replaceChildren(make("div", { class: "tools" }, filter), ...blocks.map(({ box }) => box));
  }
}
