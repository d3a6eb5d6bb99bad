// Boxes that are alike and follow each other lie in one box of their own, "h.0 … h.129": a model of very many layers can
// be looked over at once.

const ALIKE = 3; // from so many on
const MOST_BETWEEN = 4; // values between two such boxes, alike from one to the next

export function rollUp(data, contents) {
  const { inside } = contents(data);
  const apart = namedBoxes(data);
  const signs = new Map();
  const signOf = (item) => {
    const key = `${item.kind}${item.id}`;
    if (!signs.has(key)) signs.set(key, item.kind === "value" ? signOfValue(data, item.id) : signOfBox(data, inside, item.id, signOf));
    return signs.get(key);
  };
  for (const items of [...inside.values()]) {
    let at = 0;
    while (at < items.length) {
      const size = apart.has(items[at].id) || items[at].kind !== "box" ? 0 : alikeFrom(items, at, signOf, apart);
      if (size) roll(data, items.slice(at, at + size));
      at += size || 1;
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
    alike: [first, ...own],
  });
  for (const item of items) {
    if (item.kind === "box") data.boxes[item.id].around = made;
    else data.byPlace.get(item.id).box = made;
  }
}
