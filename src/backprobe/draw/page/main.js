// The page: what is open and selected, and what clicks and keys do.

import { Chains } from "./chain.js";
import { details } from "./details.js";
import { Diagram } from "./diagram.js";
import { element } from "./elements.js";
import { around, readRecording } from "./recording.js";
import { makeSearch } from "./search.js";
import { followTheme } from "./theme.js";
import { openAtFirst } from "./visible.js";

const byId = (id) => document.getElementById(id);
const recording = readRecording(byId("recording").textContent);
const chains = new Chains(recording);
const open = openAtFirst(recording);
const choices = new Map(); // where the path goes on from a value, by positions
let selected = null;

const diagram = new Diagram(
  recording,
  { tree: byId("tree"), svg: byId("edges"), canvas: byId("tree").parentElement },
  { onSelect: (item) => select(item), onToggle: (item) => toggle(item, !open.has(item.id)) },
);

function pathOf(item) {
  return item?.kind === "value" ? chains.path(item.id, choices) : null;
}

function select(item) {
  const hidden = around(recording, item).filter((box) => !open.has(box));
  selected = item;
  hidden.forEach((box) => open.add(box));
  if (hidden.length) diagram.render(open, selected);
  showDetails();
  diagram.mark(selected, pathOf(selected));
  diagram.focus(diagram.nodeOf(selected));
  say(diagram.nodeOf(selected)?.getAttribute("aria-label") ?? "");
}

function showDetails() {
  const panel = byId("details");
  panel.hidden = selected === null;
  if (selected === null) return panel.replaceChildren();
  const path = pathOf(selected);
  const chain = { path, count: selected.kind === "value" ? chains.counts.get(selected.id) : 0n };
  panel.replaceChildren(...details(recording, selected, chain, { select, choose, close: deselect }));
  panel.scrollTop = 0;
}

function choose(from, to) {
  choices.set(from, to);
  showDetails();
  diagram.mark(selected, pathOf(selected));
  byId("details").querySelector(`select[data-from="${from}"]`)?.focus();
}

function deselect() {
  const node = diagram.nodeOf(selected) ?? diagram.current();
  selected = null;
  showDetails();
  diagram.mark(null, null);
  diagram.focus(node);
}

function toggle(item, opens) {
  if (opens) open.add(item.id);
  else open.delete(item.id);
  selected = item;
  diagram.render(open, item);
  showDetails();
  diagram.mark(item, null);
  diagram.focus(diagram.nodeOf(item));
  say(`${recording.boxes[item.id].label} ${opens ? "opened" : "closed"}`);
}

function openAll(opens) {
  open.clear();
  if (opens) recording.count.forEach((count, box) => count && open.add(box));
  diagram.render(open, selected);
  diagram.mark(selected, pathOf(selected));
}

const say = (text) => (byId("status").textContent = text);

// the keyboard, as in any tree

function itemOf(node) {
  const [, kind, id] = node.dataset.key.match(/^(value|box)(\d+)$/);
  return { kind, id: Number(id) };
}

const KEYS = {
  ArrowDown: (nodes, at) => diagram.focus(nodes[at + 1]),
  ArrowUp: (nodes, at) => diagram.focus(nodes[at - 1]),
  Home: (nodes) => diagram.focus(nodes[0]),
  End: (nodes) => diagram.focus(nodes.at(-1)),
  ArrowRight: (nodes, at) => {
    const expanded = nodes[at].getAttribute("aria-expanded");
    if (expanded === "false") toggle(itemOf(nodes[at]), true);
    else if (expanded === "true") diagram.focus(nodes[at + 1]);
  },
  ArrowLeft: (nodes, at) => {
    if (nodes[at].getAttribute("aria-expanded") === "true") toggle(itemOf(nodes[at]), false);
    else diagram.focus(nodes[at].parentElement.closest("[role=treeitem]"));
  },
  Enter: (nodes, at) => enter(nodes[at]),
  " ": (nodes, at) => enter(nodes[at]),
};

function enter(node) {
  const item = itemOf(node);
  if (item.kind === "box") toggle(item, !open.has(item.id));
  else {
    select(item);
    byId("details").focus();
  }
}

byId("tree").addEventListener("keydown", (event) => {
  const node = event.target.closest("[role=treeitem]");
  if (!node || !KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const nodes = diagram.nodes();
  KEYS[event.key](nodes, nodes.indexOf(node));
});

document.addEventListener("keydown", (event) => {
  const writes = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && selected !== null) deselect();
  else if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("search").focus();
  }
});

followTheme(document.documentElement);
byId("heading").textContent = recording.heading;
byId("footer").replaceChildren(...recording.footer.map((line) => element("p", {}, line)));
byId("open-all").addEventListener("click", () => openAll(true));
byId("close-all").addEventListener("click", () => openAll(false));
byId("open-all").parentElement.hidden = !recording.boxes.length;
makeSearch(recording, byId("search"), byId("found"), { select, say });
diagram.render(open, null);
byId("diagram").scrollLeft = (byId("diagram").scrollWidth - byId("diagram").clientWidth) / 2;
new ResizeObserver(() => diagram.mark(selected, pathOf(selected))).observe(byId("diagram"));
