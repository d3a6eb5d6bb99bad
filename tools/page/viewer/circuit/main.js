// A circuit: what is open and selected in it, and what clicks and keys do. It is a page by itself, or a part of the page
// that shows runs, within a root of its own, whose ids and styles are not those of what is around it.

import { followTheme } from "../theme.js";
import { unzipped } from "../unzipped.js";
import { Chains } from "./chain.js";
import { details } from "./details.js";
import { Diagram } from "./diagram.js";
import { frameOf } from "./frame.js";
import { around, boxItem, keyOf, nameOf, readRecording, valueItem } from "./recording.js";
import { makeSearch } from "./search.js";
import { openAtFirst } from "./visible.js";

const PRINTING = ["beforeprint", "afterprint"];

// `beyond` has what is known elsewhere of a name, and hears of what is selected: { has(name), go(name), words, chose(name) }.
export class Circuit {
  #beyond;
  #chains;
  #choices = new Map(); // where the path goes on from a value, by positions
  #onKey;
  #onPrint;
  #recording;
  #root;
  #selected = null;
  #sizes;

  constructor(root, box, data, beyond = null) {
    this.#root = root;
    this.#beyond = beyond;
    this.#recording = readRecording(data);
    this.#chains = new Chains(this.#recording);
    this.open = openAtFirst(this.#recording);
    box.replaceChildren(frameOf(this.#recording, beyond !== null));
    const parts = { tree: this.#byId("tree"), svg: this.#byId("edges"), canvas: this.#byId("tree").parentElement };
    this.diagram = new Diagram(this.#recording, parts, {
      onSelect: (item) => this.select(item),
      onToggle: (item) => this.toggle(item, !this.open.has(item.id)),
    });
    this.#listen();
    this.diagram.render(this.open, null);
    const diagram = this.#byId("diagram");
    diagram.scrollLeft = (diagram.scrollWidth - diagram.clientWidth) / 2;
    this.#sizes = new ResizeObserver(() => this.diagram.resized(this.#selected, this.#pathOf(this.#selected)));
    this.#sizes.observe(diagram);
  }

  #byId(id) {
    return this.#root.getElementById(id);
  }

  #listen() {
    this.#byId("open-all").addEventListener("click", () => this.#openAll(true));
    this.#byId("close-all").addEventListener("click", () => this.#openAll(false));
    makeSearch(this.#recording, this.#byId("search"), this.#byId("found"), {
      select: (item) => this.select(item),
      say: (text) => this.say(text),
    });
    this.#byId("tree").addEventListener("keydown", (event) => this.#onTreeKey(event));
    this.#onKey = (event) => this.#onPageKey(event);
    addEventListener("keydown", this.#onKey, true); // before what is around it, which closes with the same key
    this.#onPrint = (event) => this.diagram.print(event.type === "beforeprint");
    for (const type of PRINTING) addEventListener(type, this.#onPrint);
  }

  close() {
    removeEventListener("keydown", this.#onKey, true);
    for (const type of PRINTING) removeEventListener(type, this.#onPrint);
    this.#sizes.disconnect();
  }

  say(text) {
    this.#byId("status").textContent = text;
  }

  #pathOf(item) {
    return item?.kind === "value" ? this.#chains.path(item.id, this.#choices) : null;
  }

  select(item) {
    const hidden = around(this.#recording, item).filter((box) => !this.open.has(box));
    this.#selected = item;
    hidden.forEach((box) => this.open.add(box));
    if (hidden.length || !this.diagram.nodeOf(item)) this.diagram.render(this.open, item); // or not drawn yet
    this.#showDetails();
    this.diagram.mark(item, this.#pathOf(item));
    this.diagram.focus(this.diagram.nodeOf(item));
    this.say(this.diagram.nodeOf(item)?.getAttribute("aria-label") ?? "");
  }

  // The value of a name, or the box; whether there is one.
  selectNamed(name) {
    const found = this.#recording.byName.get(name);
    if (found && keyOf(found) !== (this.#selected && keyOf(this.#selected))) this.select(found);
    return Boolean(found);
  }

  #showDetails() {
    const [panel, item] = [this.#byId("details"), this.#selected];
    this.#beyond?.chose(item && nameOf(this.#recording, item));
    panel.hidden = item === null;
    if (item === null) return panel.replaceChildren();
    const chain = { path: this.#pathOf(item), count: item.kind === "value" ? this.#chains.counts.get(item.id) : 0n };
    const acts = {
      select: (one) => this.select(one),
      choose: (from, to) => this.#choose(from, to),
      close: () => this.#deselect(),
      beyond: this.#beyond,
    };
    panel.replaceChildren(...details(this.#recording, item, chain, acts));
    panel.scrollTop = 0;
  }

  #choose(from, to) {
    this.#choices.set(from, to);
    this.#showDetails();
    this.diagram.mark(this.#selected, this.#pathOf(this.#selected));
    this.#byId("details").querySelector(`select[data-from="${from}"]`)?.focus();
  }

  #deselect() {
    const node = this.diagram.nodeOf(this.#selected) ?? this.diagram.current();
    this.#selected = null;
    this.#showDetails();
    this.diagram.mark(null, null);
    this.diagram.focus(node);
  }

  toggle(item, opens) {
    if (opens) this.open.add(item.id);
    else this.open.delete(item.id);
    this.#selected = item;
    this.diagram.render(this.open, item);
    this.#showDetails();
    this.diagram.mark(item, null);
    this.diagram.focus(this.diagram.nodeOf(item));
    this.say(`${this.#recording.boxes[item.id].label} ${opens ? "opened" : "closed"}`);
  }

  #openAll(opens) {
    this.open.clear();
    if (opens) this.#recording.count.forEach((count, box) => count && this.open.add(box));
    this.diagram.renderInPieces(this.open, () => {
      this.diagram.mark(this.#selected, this.#pathOf(this.#selected));
      this.say(`all boxes ${opens ? "opened" : "closed"}`);
    });
  }

  // the keyboard, as in any tree

  #onTreeKey(event) {
    const node = event.target.closest("[role=treeitem]");
    if (!node || !KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const nodes = this.diagram.nodes();
    KEYS[event.key](this, nodes, nodes.indexOf(node));
  }

  enter(node) {
    const item = itemOf(node);
    if (item.kind === "box") this.toggle(item, !this.open.has(item.id));
    else {
      this.select(item);
      this.#byId("details").focus();
    }
  }

  #onPageKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.composedPath()[0].closest?.("input, select, textarea, dialog[open]")) return;
    if (event.key === "Escape" && this.#selected !== null) this.#deselect();
    else if (event.key === "/") this.#byId("search").focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function itemOf(node) {
  const [, kind, id] = node.dataset.key.match(/^(value|box)(\d+)$/);
  return { value: valueItem, box: boxItem }[kind](Number(id));
}

const KEYS = {
  ArrowDown: ({ diagram }, nodes, at) => diagram.focus(nodes[at + 1]),
  ArrowUp: ({ diagram }, nodes, at) => diagram.focus(nodes[at - 1]),
  Home: ({ diagram }, nodes) => diagram.focus(nodes[0]),
  End: ({ diagram }, nodes) => diagram.focus(nodes.at(-1)),
  ArrowRight: (circuit, nodes, at) => {
    const expanded = nodes[at].getAttribute("aria-expanded");
    if (expanded === "false") circuit.toggle(itemOf(nodes[at]), true);
    else if (expanded === "true") circuit.diagram.focus(nodes[at + 1]);
  },
  ArrowLeft: (circuit, nodes, at) => {
    if (nodes[at].getAttribute("aria-expanded") === "true") circuit.toggle(itemOf(nodes[at]), false);
    else circuit.diagram.focus(nodes[at].parentElement.closest("[role=treeitem]"));
  },
  Enter: (circuit, nodes, at) => circuit.enter(nodes[at]),
  " ": (circuit, nodes, at) => circuit.enter(nodes[at]),
};

globalThis.BackprobeCircuit = Circuit; // for the page that shows runs, which loads this when it is wanted

async function alone(place) {
  // A page that has nothing but one circuit.
  followTheme((theme) => (document.documentElement.dataset.theme = theme));
  const text = new TextDecoder().decode(await unzipped(JSON.parse(place.textContent).circuit));
  new Circuit(document, document.getElementById("app"), JSON.parse(text));
}

const place = document.getElementById("data");
if (place.textContent.startsWith('{"circuit"')) alone(place);
