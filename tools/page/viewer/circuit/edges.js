// Lines between what is visible: from the lower side of one element, through its lanes, to the upper side of another.
// A line bends only between rows, where nothing stands. Only those that lie where one looks are measured and drawn.

import { drawn } from "./elements.js";
import { keyOf } from "./recording.js";

const MOST_LABELS = 80; // beyond, only selected lines have theirs
const MOST_QUIET = 60; // lines of one selected value, of those that are drawn only then
const MOST_CHARACTERS = 24;
const LETTER = { width: 7.5, height: 15 };
const APART = 8; // pixels between two labels
const BEYOND = 2; // windows above and below the one that is seen, in which lines are drawn too

export class Lines {
  #canvas;
  #drawn = [0, 0]; // from where to where
  #edges = [];
  #hasAllLabels = true;
  #index = new Index();
  #looks;
  #nodes;
  #stops;
  #svg;
  #window;

  constructor(svg, canvas) {
    [this.#svg, this.#canvas, this.#window] = [svg, canvas, canvas.parentElement];
    let waits = 0;
    const scrolled = () => {
      waits ||= requestAnimationFrame(() => {
        waits = 0;
        const [top, bottom] = this.#seen(0);
        if (top < this.#drawn[0] || bottom > this.#drawn[1]) this.draw();
      });
    };
    this.#window.addEventListener("scroll", scrolled, { passive: true });
  }

  // After something was opened or closed, in pieces: the edges, and the elements and lanes by their names.
  *take(edges, nodes) {
    const index = new Index();
    for (const edge of edges) {
      index.add(edge);
      yield;
    }
    [this.#edges, this.#index, this.#nodes] = [edges, index, nodes];
    this.measure();
  }

  // After the window has got another size.
  measure() {
    this.#stops = null;
  }

  // `isNear` says whether a line belongs to what is selected, `isOnPath` whether it is on the path that is looked at.
  mark(isNear, isOnPath) {
    const isFew = this.#edges.filter((edge) => edge.quiet && isNear(edge)).length <= MOST_QUIET;
    const isShown = (edge) => !edge.quiet || isOnPath(edge) || (isFew && isNear(edge));
    this.#looks = { isNear, isOnPath, isShown };
    this.#hasAllLabels = this.#edges.filter((edge) => labelOf(edge) && isShown(edge)).length <= MOST_LABELS;
    this.draw();
  }

  // From where to where one sees the canvas, and so many windows more.
  #seen(beyond) {
    const { scrollTop, clientHeight } = this.#window;
    return [scrollTop - beyond * clientHeight, scrollTop + (1 + beyond) * clientHeight];
  }

  // Those near what one sees, or all: for paper.
  draw(isWhole = false) {
    const [top, bottom] = (this.#drawn = isWhole ? [-Infinity, Infinity] : this.#seen(BEYOND));
    const { isNear, isOnPath, isShown } = this.#looks;
    this.#stops ??= new Stops(this.#canvas, this.#nodes);
    this.#stops.scrolled();
    const near = new Set((isWhole ? this.#edges : this.#index.between(this.#stops, top, bottom)).filter(isShown));
    const measured = this.#index.withThoseBeside(near).filter(isShown);
    const all = measured.map((edge) => lineOf(this.#stops, edge, isNear(edge), isOnPath(edge))).filter(Boolean);
    spread(all, 0);
    spread(all, -1);
    const lines = all.filter((line) => near.has(line.edge));
    for (const line of lines) line.hops = hops(this.#stops, line);
    const labelled = lines.filter((line) => labelOf(line.edge) && (this.#hasAllLabels || line.near || line.onPath));
    labelled.sort((a, b) => Number(b.near) - Number(a.near));
    const taken = [];
    this.#svg.setAttribute("width", this.#canvas.scrollWidth);
    this.#svg.setAttribute("height", this.#canvas.scrollHeight);
    this.#svg.replaceChildren(
      arrowHead(),
      ...lines.map(group),
      ...labelled.map((line) => labelOn(line, taken)).filter(Boolean),
    );
  }
}

// The edges by what they begin and end at, go through, and leave or enter.
class Index {
  #at = new Map();
  #from = new Map();
  #to = new Map();

  add(edge) {
    const put = (map, key) => (map.has(key) ? map.get(key).push(edge) : map.set(key, [edge]));
    const [from, to] = [keyOf(edge.from), keyOf(edge.to)];
    put(this.#from, from);
    put(this.#to, to);
    for (const key of [from, to, ...(edge.lanes ?? []), ...(edge.boxes ?? [])]) put(this.#at, key);
  }

  // Those of the rows between two heights: what is outside of these is not measured.
  between(stops, top, bottom) {
    const found = new Set();
    const isThere = (node) => {
      const place = stops.rectangle(node);
      return place.top <= bottom && place.bottom >= top;
    };
    const visit = (node) => {
      for (const child of node.children) {
        if (child.matches("svg")) continue;
        if (!child.matches(".row, .alone")) visit(child);
        else if (isThere(child)) [...child.children].forEach(enter);
      }
    };
    const enter = (cell) => {
      for (const edge of this.#at.get(cell.dataset.key ?? cell.dataset.lane) ?? []) found.add(edge);
      if (cell.matches(".open") && isThere(cell)) visit(cell);
    };
    visit(stops.canvas);
    return [...found];
  }

  // And those that begin or end beside one of them.
  withThoseBeside(edges) {
    const found = new Set();
    for (const { from, to } of edges) {
      for (const one of [...this.#from.get(keyOf(from)), ...this.#to.get(keyOf(to))]) found.add(one);
    }
    return [...found];
  }
}

function lineOf(stops, edge, near, onPath) {
  const names = [keyOf(edge.from), ...(edge.quiet ? [] : (edge.lanes ?? [])), keyOf(edge.to)];
  const own = names.map((name) => stops.named(name));
  return own[0] && own.at(-1) ? { edge, near, onPath, stops: own.filter(Boolean) } : null; // null: not there yet
}

// Where elements and lanes lie within the canvas, and the rows that they stand in.
class Stops {
  #byName;
  #origin;
  #rectangles = new Map();

  constructor(canvas, byName) {
    this.canvas = canvas;
    this.#byName = byName;
  }

  // Before something is measured: the canvas may lie elsewhere in the window now.
  scrolled() {
    this.#origin = this.canvas.getBoundingClientRect();
  }

  named(name) {
    const node = this.#byName.get(name);
    return node ? this.rectangle(node) : null;
  }

  rectangle(node) {
    if (!this.#rectangles.has(node)) {
      const { left, top, width, height } = node.getBoundingClientRect();
      const [x, y] = [left - this.#origin.left, top - this.#origin.top];
      this.#rectangles.set(node, { node, x, top: y, bottom: y + height, width, middle: x + width / 2 });
    }
    return this.#rectangles.get(node);
  }

  // The outermost row around one stop in which the other is not.
  row(stop, other) {
    let found = null;
    for (
      let node = stop.node.closest(".row");
      node && !node.contains(other.node);
      node = node.parentElement.closest(".row")
    ) {
      found = node;
    }
    return found ? this.rectangle(found) : stop;
  }
}

// Lines that share an element begin and end side by side, in the order of where they come from and go to; those that
// go through one lane, as one.
function spread(lines, end) {
  const sharing = new Map();
  for (const line of lines) {
    const [stop, next] = end ? [line.stops.at(-1), line.stops.at(-2)] : line.stops;
    if (!sharing.has(stop.node)) sharing.set(stop.node, new Map());
    const ways = sharing.get(stop.node);
    ways.set(next.node, [...(ways.get(next.node) ?? []), line]);
  }
  for (const ways of sharing.values()) {
    const next = (line) => line.stops.at(end ? -2 : 1).middle;
    const sorted = [...ways.values()].sort(([a], [b]) => next(a) - next(b));
    const { width, middle } = sorted[0][0].stops.at(end);
    const step = Math.min(18, (width - 16) / sorted.length);
    sorted.forEach((own, at) =>
      own.forEach((line) => {
        line[end ? "endX" : "startX"] = middle + step * (at - (sorted.length - 1) / 2);
      }),
    );
  }
}

// From stop to stop: a curve from the end of one row to the start of another, and straight lines within them.
function hops(stops, { stops: own, startX, endX }) {
  return own.slice(1).map((to, at) => {
    const from = own[at];
    const last = at === own.length - 2;
    const [fromX, toX] = [at ? from.middle : startX, last ? endX : to.middle];
    const [leaving, arriving] = [stops.row(from, to).bottom, stops.row(to, from).top];
    const back = arriving < leaving; // to what stands above: a curve around all
    return {
      begin: { x: fromX, y: from.bottom },
      end: { x: toX, y: last ? to.top - 2 : to.bottom },
      from: { x: fromX, y: back ? from.bottom : leaving },
      to: { x: toX, y: back ? to.top - 2 : Math.min(arriving, to.top - 2) },
    };
  });
}

function group({ edge, near, onPath, hops: way }) {
  const level = Math.max(-1, ...edge.edges.map((each) => each.level ?? -1));
  const classes = [
    "edge",
    edge.carries ? "carries" : "cut",
    near && "near",
    onPath && "path",
    level >= 0 && `level${level}`,
    edge.edges.some((each) => each.finite === false) && "nonfinite",
  ]
    .filter(Boolean)
    .join(" ");
  return drawn(
    "g",
    { class: classes, "data-edge": `${keyOf(edge.from)} ${keyOf(edge.to)}` },
    drawn("path", { d: way.map(curve).join(" "), "marker-end": "url(#head)" }),
  );
}

function curve({ begin, from, to, end }, at) {
  const bend = bendOf(from, to);
  const curved = `C${point({ x: from.x, y: from.y + bend })} ${point({ x: to.x, y: to.y - bend })} ${point(to)}`;
  const straight = (a, b) => (Math.abs(a.y - b.y) < 0.5 ? "" : ` L${point(b)}`); // a line of no length has no direction
  return `${at ? "L" : "M"}${point(begin)}${straight(begin, from)} ${curved}${straight(to, end)}`;
}

const point = ({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`;
const bendOf = (from, to) => Math.max(14, Math.abs(to.y - from.y) / 2);

function labelOf(edge) {
  const label = edge.edges.length === 1 ? (edge.edges[0].label ?? "") : "";
  return label.length > MOST_CHARACTERS ? `${label.slice(0, MOST_CHARACTERS - 1)}…` : label;
}

// The label of a line on its last curve, where no other label lies; none where there is no room.
function labelOn(line, taken) {
  const label = labelOf(line.edge);
  const { from, to } = line.hops.at(-1);
  for (const part of [0.5, 0.35, 0.65, 0.25, 0.75]) {
    const { x, y } = onCurve(from, to, part);
    const box = { left: x + 4, right: x + 4 + label.length * LETTER.width + APART, top: y - 8, bottom: y - 8 + LETTER.height };
    if (taken.some((other) => overlaps(box, other))) continue;
    taken.push(box);
    return drawn("text", { x: x + 4, y: y + 4, class: "label" }, label);
  }
  return null;
}

const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

function onCurve(from, to, part) {
  const bend = bendOf(from, to);
  const mix = (a, b, c, d) => {
    const rest = 1 - part;
    return rest ** 3 * a + 3 * rest ** 2 * part * b + 3 * rest * part ** 2 * c + part ** 3 * d;
  };
  return { x: mix(from.x, from.x, to.x, to.x), y: mix(from.y, from.y + bend, to.y - bend, to.y) };
}

function arrowHead() {
  const head = drawn("path", { d: "M0,0.5 L7,4 L0,7.5 Z", fill: "context-stroke" });
  const marker = { id: "head", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7 };
  return drawn("defs", {}, drawn("marker", { ...marker, orient: "auto", markerUnits: "userSpaceOnUse" }, head));
}
