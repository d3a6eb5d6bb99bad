// What is visible while some boxes are open: which item stands for each value, the edges between these items, and the
// rows of each open box.

import { around, keyOf, valueItem } from "./recording.js";
import { layered } from "./layers.js";

const AT_FIRST = 40; // items that a page opens with, at most
const MANY = 12; // a value flows into so many along which no gradient flows back, or
const VERY_MANY = 40; // into so many at all: its edges are drawn when it is selected

// The boxes to open at first: those asked for, and all around them; else level by level, as deep as was asked for or as
// there is room. What is rolled up is opened only where there is room for all of it.
export function openAtFirst(recording) {
  const { boxes, count, inside } = recording;
  const open = new Set(recording.open.flatMap((box) => [box, ...around(recording, { kind: "box", id: box })]));
  if (open.size && recording.depth === null) return open;
  const outer = (items) => items.filter((item) => item.kind === "box" && count[item.id]).map((item) => item.id);
  let visible = inside.get(null).length;
  for (let level = outer(inside.get(null)); level.length; level = level.flatMap((box) => (open.has(box) ? outer(inside.get(box)) : []))) {
    const shallow = level.filter((box) => boxes[box].level < (recording.depth ?? Infinity) || boxes[box].alike);
    const isSmall = (box) => !boxes[box].alike || visible + inside.get(box).length <= AT_FIRST;
    const chosen = shallow.filter(isSmall);
    visible += chosen.reduce((sum, box) => sum + inside.get(box).length, 0);
    if (recording.depth === null && visible > AT_FIRST) break;
    chosen.forEach((box) => open.add(box));
  }
  return open;
}

// The item that is visible for a value or box: itself, or the outermost closed box around it.
export function standsFor(recording, open, item) {
  const closed = around(recording, item).filter((box) => !open.has(box));
  return closed.length ? { kind: "box", id: closed.at(-1) } : item;
}

// The edges between visible items, those that share both ends as one. It may be made in pieces.
export function* visibleEdges(recording, open) {
  const found = new Map();
  const stands = new Map();
  const standOf = (at) => {
    if (!stands.has(at)) stands.set(at, standsFor(recording, open, valueItem(at)));
    return stands.get(at);
  };
  for (const edge of recording.edges) {
    yield;
    const [from, to] = [standOf(edge.from), standOf(edge.to)];
    const key = `${keyOf(from)} ${keyOf(to)}`;
    if (keyOf(from) === keyOf(to)) continue;
    if (!found.has(key)) found.set(key, { from, to, edges: [] });
    found.get(key).edges.push(edge);
  }
  const consumers = new Map();
  for (const { from } of found.values()) consumers.set(keyOf(from), (consumers.get(keyOf(from)) ?? 0) + 1);
  return [...found.values()].map((one) => {
    const carries = one.edges.some((edge) => edge.carries);
    return { ...one, carries, quiet: consumers.get(keyOf(one.from)) >= (carries ? VERY_MANY : MANY) };
  });
}

// The rows of each open box, and for each edge the lanes that it goes through, from its start to its end, and the boxes
// that it leaves and enters. It may be made in pieces.
export function* arranged(recording, open, edges) {
  const plans = new Map();
  for (const box of [null, ...open]) {
    const items = recording.inside.get(box);
    const place = new Map(items.map((item, at) => [keyOf(item), at]));
    plans.set(box, { items, place, links: [], arrivals: [], departures: new Set() });
  }
  const ways = [];
  for (const edge of edges) {
    if (!edge.quiet) ways.push([edge, way(recording, plans, edge)]);
    yield;
  }
  for (const plan of plans.values()) {
    Object.assign(plan, layered(plan.items.length, plan.links, plan.arrivals, [...plan.departures]));
    yield;
  }
  for (const [edge, parts] of ways) {
    edge.lanes = parts.flatMap((part) => lanesOf(plans, part));
    edge.boxes = parts.filter((part) => part.to === null || part.source !== undefined).map((part) => `box${part.box}`);
    yield;
  }
  return plans;
}

// The boxes that an edge leaves, the one that holds both of its ends, and those that it enters.
function way(recording, plans, edge) {
  const up = [edge.from, ...around(recording, edge.from).map((id) => ({ kind: "box", id }))];
  const down = [edge.to, ...around(recording, edge.to).map((id) => ({ kind: "box", id }))];
  while (up.length > 1 && down.length > 1 && keyOf(up.at(-1)) === keyOf(down.at(-1))) {
    up.pop();
    down.pop();
  }
  const place = (item) => plans.get(within(recording, item)).place.get(keyOf(item));
  const [top, bottom] = [up.at(-1), down.at(-1)];
  const common = within(recording, top);
  const parts = [];
  for (const item of up.slice(0, -1)) {
    const box = within(recording, item);
    plans.get(box).departures.add(place(item));
    parts.push({ box, from: place(item), to: null });
  }
  plans.get(common).links.push([place(top), place(bottom)]);
  parts.push({ box: common, from: place(top), to: place(bottom) });
  for (const item of down.slice(0, -1).reverse()) {
    const box = within(recording, item);
    plans.get(box).arrivals.push([`from ${keyOf(top)}`, place(item)]);
    parts.push({ box, source: `from ${keyOf(top)}`, to: place(item) });
  }
  return parts;
}

function lanesOf(plans, part) {
  const { row, rows } = plans.get(part.box);
  const start = part.source === undefined ? row[part.from] + 1 : 0;
  const end = part.to === null ? rows.length : row[part.to];
  const name = part.source ?? `item${part.from}`;
  return Array.from({ length: Math.max(0, end - start) }, (_, step) => `${part.box} ${start + step} ${name}`);
}

const within = (recording, item) => around(recording, item)[0] ?? null;
