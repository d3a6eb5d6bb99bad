// The diagram: nested boxes with rows of values, as a tree that a screen reader and the keyboard can walk.

import { Lines } from "./edges.js";
import { element, plural } from "./elements.js";
import { keyOf, valueItem } from "./recording.js";
import { sparkline } from "./sparkline.js";
import { arranged, standsFor, visibleEdges } from "./visible.js";

const PIECE = 30; // milliseconds of a piece of what is drawn in pieces
const FEW = 4000; // steps of the first piece, at least: less is drawn at once

export class Diagram {
  #canvas;
  #lines;
  #making;
  #nodes; // elements and lanes by their names
  #onSelect;
  #onToggle;
  #plans;
  #recording;
  #tree;

  constructor(recording, { tree, svg, canvas }, { onSelect, onToggle }) {
    this.#recording = recording;
    this.#onSelect = onSelect;
    this.#onToggle = onToggle;
    this.#tree = tree;
    this.#canvas = canvas;
    this.#lines = new Lines(svg, canvas);
  }

  // Everything anew: after a box was opened or closed.
  render(open, selected) {
    this.#making = this.#made(open);
    while (!this.#making.next().done);
    this.mark(selected, null);
  }

  // The same in pieces, between which the page answers; `then` what comes last. Another rendering ends it.
  renderInPieces(open, then) {
    const making = (this.#making = this.#made(open));
    const go = (few) => {
      if (this.#making !== making) return;
      const end = performance.now() + PIECE;
      for (let at = 0; at < few || performance.now() < end; at++) if (making.next().done) return then();
      setTimeout(go, 0, 0);
    };
    go(FEW);
  }

  *#made(open) {
    this.open = open;
    const edges = yield* visibleEdges(this.#recording, open);
    this.#plans = yield* arranged(this.#recording, open, edges);
    this.#nodes = new Map();
    this.#tree.replaceChildren();
    yield* this.#fill(this.#tree, null, 1);
    yield* this.#lines.take(edges, this.#nodes);
  }

  // After the window has got another size.
  resized(selected, path) {
    this.#lines.measure();
    this.mark(selected, path);
  }

  // On paper all is seen, and nothing moves from where the lines lead.
  print(is) {
    this.#canvas.style.width = is ? `${this.#canvas.offsetWidth}px` : "";
    this.#lines.draw(is);
  }

  // The rows of a box, and beside them what no edge touches.
  *#fill(parent, box, level) {
    const { rows, items, alone } = this.#plans.get(box);
    const part = (around, name, lane) => around.appendChild(element("div", { class: name, role: "none", "data-lane": lane }));
    const layers = part(parent, "layers");
    for (const cells of rows) {
      const line = part(layers, "row");
      for (const { item, lane, row } of cells) {
        const name = `${box} ${row} ${lane}`;
        if (item === undefined) this.#nodes.set(name, part(line, "lane", name));
        else yield* this.#add(line, items[item], level);
      }
    }
    const aside = alone.length && part(parent, "alone");
    for (const item of alone) yield* this.#add(aside, items[item], level);
  }

  *#add(parent, item, level) {
    yield;
    if (item.kind === "value") parent.append(this.#valueOf(this.#recording.values.get(item.id), level));
    else if (this.open.has(item.id)) yield* this.#fill(this.#openBox(parent, item, level), item.id, level + 1);
    else parent.append(this.#closedBox(item, level));
  }

  #treeItem(item, level, classes, label, children, attributes = {}) {
    const made = element(
      "div",
      {
        role: "treeitem",
        class: classes,
        "data-key": keyOf(item),
        "aria-level": level,
        "aria-label": label,
        "aria-selected": "false",
        tabindex: -1,
        ...attributes,
      },
      children,
    );
    this.#nodes.set(keyOf(item), made);
    return made;
  }

  #valueOf(value, level) {
    const lines = value.brief;
    const shown =
      value.expression && value.expression !== value.value && value.kind !== "parameter"
        ? element("code", {}, value.expression)
        : null;
    const children = [element("b", {}, value.title), shown, ...lines.map((line) => element("span", {}, line))];
    return this.#treeItem(
      valueItem(value.at),
      level,
      looks(value, value.kind),
      [value.name, ...lines].join(", "),
      children,
      { onclick: (event) => this.#clicked(event, valueItem(value.at)) },
    );
  }

  #closedBox(item, level) {
    const { boxes, count, alarms } = this.#recording;
    const box = boxes[item.id];
    const inside = box.alike ? acrossWhat(box) : plural(count[item.id], "value");
    const returned = this.#recording.values.get(
      box.returned.find((at) => this.#recording.values.get(at).status === "ok") ?? box.returned[0],
    );
    const lines = box.alike ? [] : (returned?.brief ?? []);
    const alarm = alarms[item.id] ? `${alarms[item.id].toLocaleString("en")} ${this.#recording.alarm} inside` : "";
    const children = [
      element("b", {}, "▸ ", box.label, " ", element("small", {}, inside)),
      ...lines.map((line) => element("span", {}, line)),
      alarm ? element("span", { class: "alarm" }, alarm) : null,
      ...(box.alike ? sparkline(this.#recording, box.alike) : []),
    ];
    return this.#treeItem(
      item,
      level,
      this.#looksOfBox(item.id, returned),
      [box.label, inside, ...lines, alarm].filter(Boolean).join(", "),
      children,
      { "aria-expanded": "false", onclick: (event) => this.#clicked(event, item) },
    );
  }

  // A closed box looks like what it returns, but where something in it has to be seen; of a report, like the worst.
  #looksOfBox(id, returned) {
    const { boxes, alarms, darkest, kind } = this.#recording;
    const isWorst = kind !== "circuit" || boxes[id].alike;
    const level = isWorst ? darkest[id] : (returned?.level ?? null);
    const health = alarms[id] ? (kind === "circuit" ? "nonfinite" : "blamed") : isWorst ? "" : returned?.health;
    return ["box closed", boxes[id].alike && "rolled", health, level === null ? "" : `level${level}`].filter(Boolean).join(" ");
  }

  #openBox(parent, item, level) {
    const box = this.#recording.boxes[item.id];
    const head = element(
      "div",
      { class: "head", role: "none", onclick: (event) => this.#clicked(event, item) },
      element("b", {}, "▾ ", box.label),
    );
    const rows = element("div", { role: "group", class: "rows" });
    parent.append(this.#treeItem(item, level, "box open", box.label, [head, rows], { "aria-expanded": "true" }));
    return rows;
  }

  #clicked(event, item) {
    event.stopPropagation();
    if (item.kind === "box") this.#onToggle(item);
    else this.#onSelect(item);
  }

  // What is selected, and the path from it, as classes; the lines are drawn again.
  mark(selected, path) {
    const key = selected && keyOf(standsFor(this.#recording, this.open, selected));
    const [before, node] = [this.#tree.querySelector(".selected"), this.nodeOf(selected)];
    for (const [one, is] of [[before, false], [node, true]]) {
      one?.setAttribute("aria-selected", is);
      one?.classList.toggle("selected", is);
    }
    const steps = new Set((path?.steps ?? []).map(({ edge }) => edge));
    this.#lines.mark(
      (edge) => key !== null && (keyOf(edge.from) === key || keyOf(edge.to) === key),
      (edge) => edge.edges.some((one) => steps.has(one)),
    );
    this.#makeCurrent(node ?? this.current() ?? this.#tree.querySelector("[role=treeitem]"));
  }

  nodes() {
    return [...this.#tree.querySelectorAll("[role=treeitem]")];
  }

  nodeOf(item) {
    const key = item && keyOf(standsFor(this.#recording, this.open, item));
    return (key && this.#nodes.get(key)) ?? null;
  }

  current() {
    return this.#tree.querySelector("[role=treeitem][tabindex='0']");
  }

  // One item at a time can be reached with Tab.
  #makeCurrent(node) {
    this.current()?.setAttribute("tabindex", "-1");
    node?.setAttribute("tabindex", "0");
  }

  focus(node) {
    if (!node) return;
    this.#makeCurrent(node);
    node.focus({ preventScroll: true });
    (node.querySelector(":scope > .head") ?? node).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

export const acrossWhat = ({ alike, isLoop }) => `${alike.length.toLocaleString("en")} ${isLoop ? "turns" : "alike"}`;

function looks(value, kind) {
  if (!value) return kind;
  return [kind, value.health, value.level === null ? "" : `level${value.level}`].filter(Boolean).join(" ");
}
