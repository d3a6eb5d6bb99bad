// The recording that is shown, as an index: values by position, edges by their ends, what lies in each box.

import { rollUp } from "./rolled.js";

export function readRecording(data) {
  data.byPlace = new Map(data.values.map((value) => [value.at, value]));
  dissolve(data);
  rollUp(data, contents);
  const values = data.byPlace;
  const onward = new Map(data.values.map((value) => [value.at, []])); // edges that leave a value
  const into = new Map(data.values.map((value) => [value.at, []]));
  for (const edge of data.edges) {
    onward.get(edge.from).push(edge);
    into.get(edge.to).push(edge);
  }
  const found = contents(data);
  const insideOf = (box) => found.inside.get(box).flatMap((item) => (item.kind === "box" ? insideOf(item.id) : [values.get(item.id)]));
  return { ...data, values, onward, into, outputSet: new Set(data.outputs), byName: named(data), insideOf, ...found };
}

// Values by name, and boxes where no value has it.
function named({ boxes, values }) {
  const found = new Map(boxes.map((box, at) => [box.name, boxItem(at)]));
  for (const value of [...values].reverse()) for (const name of [...value.aliases, value.name]) found.set(name, valueItem(value.at));
  return found;
}

// A box that holds one value and nothing else is that value, under the name of the box.
function dissolve({ boxes, values }) {
  const own = boxes.map(() => []);
  const holds = boxes.map(() => 0); // boxes
  for (const value of values) if (value.box !== null) own[value.box].push(value);
  for (const box of boxes) if (box.around !== null) holds[box.around] += 1;
  for (const box of [...boxes.keys()].sort((a, b) => boxes[b].level - boxes[a].level)) {
    if (own[box].length !== 1 || holds[box]) continue;
    const { around, label } = boxes[box];
    const [value] = own[box];
    value.title = value.title === "return" ? label : `${label}.${value.title}`;
    value.box = around;
    boxes[box].around = null;
    if (around === null) continue;
    holds[around] -= 1;
    own[around].push(value);
  }
}

// What lies directly in each box, and under null outside of all: values and boxes in the order of execution. A box has
// its place by the first value that it computes, for its parameters are there from the start. And of each box how many
// values it holds, how many of these have to be seen, and how dark the darkest is.
function contents(data) {
  const inside = new Map([[null, []], ...data.boxes.map((_, box) => [box, []])]);
  const first = new Map();
  const count = new Array(data.boxes.length).fill(0);
  const alarms = new Array(data.boxes.length).fill(0);
  const darkest = new Array(data.boxes.length).fill(null);
  const isGiven = (value) => value.kind === "parameter";
  for (const value of [...data.values].sort((a, b) => isGiven(a) - isGiven(b))) {
    inside.get(value.box).push({ kind: "value", id: value.at, first: value.at });
    for (let box = value.box; box !== null; box = data.boxes[box].around) {
      count[box] += 1;
      alarms[box] += value.health === "nonfinite" || value.health === "blamed";
      if (value.level !== null) darkest[box] = Math.max(darkest[box] ?? 0, value.level);
      if (!first.has(box)) first.set(box, value.at);
    }
  }
  for (const [box, at] of first) inside.get(data.boxes[box].around).push({ kind: "box", id: box, first: at });
  // a box comes before the values that it is known by, and the box around a box before that one
  for (const items of inside.values()) items.sort((a, b) => a.first - b.first || (a.kind === "box" ? -1 : 1));
  return { inside, count, alarms, darkest };
}

// The boxes around a value or box, the innermost first.
export function around(recording, item) {
  const found = [];
  let box = item.kind === "box" ? recording.boxes[item.id].around : recording.values.get(item.id).box;
  for (; box !== null; box = recording.boxes[box].around) found.push(box);
  return found;
}

export const valueItem = (at) => ({ kind: "value", id: at });
export const boxItem = (at) => ({ kind: "box", id: at });
export const nameOf = ({ boxes, values }, { kind, id }) => (kind === "box" ? boxes[id] : values.get(id)).name;
export const keyOf = (item) => `${item.kind}${item.id}`;
