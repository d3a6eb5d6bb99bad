// The recording that the page is about, as an index: values by position, edges by their ends, what lies in each box.

export function readRecording(text) {
  const data = JSON.parse(text);
  dissolve(data);
  const values = new Map(data.values.map((value) => [value.at, value]));
  const onward = new Map(data.values.map((value) => [value.at, []])); // edges that leave a value
  const into = new Map(data.values.map((value) => [value.at, []]));
  for (const edge of data.edges) {
    onward.get(edge.from).push(edge);
    into.get(edge.to).push(edge);
  }
  return { ...data, values, onward, into, outputSet: new Set(data.outputs), ...contents(data) };
}

// A box that holds one value and nothing else is that value, under the name of the box.
function dissolve({ boxes, values }) {
  for (const box of [...boxes.keys()].sort((a, b) => boxes[b].level - boxes[a].level)) {
    const own = values.filter((value) => value.box === box);
    if (own.length !== 1 || boxes.some((other) => other.around === box)) continue;
    own[0].title = own[0].title === "return" ? boxes[box].label : `${boxes[box].label}.${own[0].title}`;
    own[0].box = boxes[box].around;
    boxes[box].around = null;
  }
}

// What lies directly in each box, and under null outside of all: values and boxes in the order of execution. A box has
// its place by the first value that it computes, for its parameters are there from the start.
function contents(data) {
  const inside = new Map([[null, []], ...data.boxes.map((_, box) => [box, []])]);
  const first = new Map();
  const count = new Array(data.boxes.length).fill(0);
  const isGiven = (value) => value.kind === "parameter";
  for (const value of [...data.values].sort((a, b) => isGiven(a) - isGiven(b))) {
    inside.get(value.box).push({ kind: "value", id: value.at, first: value.at });
    for (let box = value.box; box !== null; box = data.boxes[box].around) {
      count[box] += 1;
      if (!first.has(box)) first.set(box, value.at);
    }
  }
  for (const [box, at] of first) inside.get(data.boxes[box].around).push({ kind: "box", id: box, first: at });
  // a box comes before the values that it is known by, and the box around a box before that one
  for (const items of inside.values()) items.sort((a, b) => a.first - b.first || (a.kind === "box" ? -1 : 1));
  return { inside, count };
}

// The boxes around a value or box, the innermost first.
export function around(recording, item) {
  const found = [];
  let box = item.kind === "box" ? recording.boxes[item.id].around : recording.values.get(item.id).box;
  for (; box !== null; box = recording.boxes[box].around) found.push(box);
  return found;
}

export const valueItem = (at) => ({ kind: "value", id: at });
export const keyOf = (item) => `${item.kind}${item.id}`;
