// Boxes that are alike and follow each other lie in one box of their own, "h.0 … h.129": a model of very many layers can
// be looked over at once. So do the turns of a loop, "h#0 … h#99": the values that are bound in it again and again.

import { boxItem, valueItem } from "./recording.js";

const ALIKE = 3; // from so many on
const MOST_BETWEEN = 4; // values between two such boxes, alike from one to the next
const TURNS = 8; // of a loop, from so many on
const MOST_IN_TURN = 12; // values
const MOST_TITLES = 3; // that a turn is called by

export function rollUp(data, contents) {
  const { inside } = contents(data);
  const apart = namedBoxes(data);
  const signs = new Map();
  const signOf = (item) => {
    const key = `${item.kind}${item.id}`;
    if (!signs.has(key)) signs.set(key, item.kind === "value" ? signOfValue(data, item.id) : signOfBox(data, inside, item.id, signOf));
    return signs.get(key);
  };
  for (const [box, items] of [...inside]) {
    const bindings = items.map((item) => (item.kind === "value" ? bindingOf(data.byPlace.get(item.id)) : null));
    let at = 0;
    while (at < items.length) {
      const isBox = items[at].kind === "box";
      const size = !isBox || apart.has(items[at].id) ? 0 : alikeFrom(items, at, signOf, apart);
      const turn = isBox ? null : turnsFrom(bindings, at);
      if (size) roll(data, items.slice(at, at + size));
      else if (turn) rollTurns(data, box, items.slice(at, turn.end), turn.size);
      at = turn ? turn.end : at + (size || 1);
    }
  }
}

// The boxes that are open from the start, and those around them: they were asked for, or are to be seen first.
function namedBoxes({ boxes, open }) {
  const found = new Set();
  for (let box of open) for (; box !== null; box = boxes[box].around) found.add(box);
  return found;
}

const formOf = (text) => text.replace(/\d+/g, "*");

function signOfValue({ byPlace }, at) {
  const { title, kind, described } = byPlace.get(at);
  return JSON.stringify([formOf(title), kind, described]);
}

function signOfBox({ boxes }, inside, box, signOf) {
  return `${formOf(boxes[box].label)}{${inside.get(box).map(signOf).join()}}`;
}

// How many items from this box on are alike: boxes, and what is between two of them each time; 0 for too few.
function alikeFrom(items, begin, signOf, apart) {
  const sign = signOf(items[begin]);
  const isAlike = (item) => item?.kind === "box" && !apart.has(item.id) && signOf(item) === sign;
  const next = items.slice(begin + 1, begin + 2 + MOST_BETWEEN).findIndex((item) => item.kind === "box");
  if (next < 0) return 0;
  const between = items.slice(begin + 1, begin + 1 + next).map(signOf);
  let [end, boxes] = [begin + 1, 1];
  while (isAlike(items[end + next]) && between.every((one, at) => items[end + at].kind === "value" && signOf(items[end + at]) === one)) {
    end += next + 1;
    boxes += 1;
  }
  return boxes >= ALIKE ? end - begin : 0;
}

function roll(data, items) {
  const [first, ...own] = items.filter((item) => item.kind === "box").map((item) => item.id);
  const [around, last] = [data.boxes[first].around, own.at(-1)];
  const made = data.boxes.length;
  const [start, end] = [data.boxes[first], data.boxes[last]];
  data.boxes.push({
    name: `${start.name} … ${end.name}`,
    label: `${start.label} … ${end.label}`,
    around,
    level: start.level,
    returned: end.returned,
    alike: [first, ...own].map(boxItem),
  });
  for (const item of items) {
    if (item.kind === "box") data.boxes[item.id].around = made;
    else data.byPlace.get(item.id).box = made;
  }
}

// What a value is a binding of: "h#3" and "h#4" are of the same. Null for what is bound once.
function bindingOf({ name, kind }) {
  return /#\d/.test(name) ? `${name.replace(/#\d+/g, "#")} ${kind}` : null;
}

// The turns of a loop that begins here: how many values each has, and where the last ends; null where there are too few.
function turnsFrom(bindings, begin) {
  for (let size = 1; size <= MOST_IN_TURN; size++) {
    let end = begin;
    while (bindings[end] !== null && bindings[end] !== undefined && bindings[end] === bindings[begin + ((end - begin) % size)]) end += 1;
    end -= (end - begin) % size;
    if (end - begin >= TURNS * size) return { size, end };
  }
  return null;
}

function rollTurns(data, around, items, size) {
  const values = items.map((item) => data.byPlace.get(item.id));
  const turns = Array.from({ length: values.length / size }, (_, at) => values.slice(at * size, (at + 1) * size));
  const level = around === null ? 0 : data.boxes[around].level + 1;
  const [start, end] = [turns[0], turns.at(-1)];
  const made = data.boxes.length;
  const box = (own, more) => ({ name: nameOf(own), label: titleOf(own), around: made, level: level + 1, returned: [own.at(-1).at], ...more });
  data.boxes.push(box(end, { name: `${nameOf(start)} … ${nameOf(end)}`, label: `${titleOf(start)} … ${titleOf(end)}`, around, level, isLoop: true }));
  data.boxes[made].alike = turns.map((own) => {
    const inner = size === 1 ? made : data.boxes.push(box(own)) - 1;
    for (const value of own) value.box = inner;
    return size === 1 ? valueItem(own[0].at) : boxItem(inner);
  });
  if (values.some((value) => value.health === "blamed")) data.open.push(made); // what a report names is seen at first
}

const nameOf = (values) => values.map((value) => value.name).join(", ");

function titleOf(values) {
  const titles = values.map((value) => value.title);
  return titles.length > MOST_TITLES ? `${titles.slice(0, MOST_TITLES).join(", ")}, …` : titles.join(", ");
}
