// Rows for the items of one box, so that edges lead down: each item stands below all that flow into it. An edge that
// passes a row has a lane of its own in it, which edges from the same place share.

const SWEEPS = 6;

// `links` lead from one item to another, by their places in the order of execution; `arrivals` are [source, item] of
// what comes in from outside, `departures` the items from which something leaves. The result is rows of cells { item }
// or { lane }, the row of each item, and the items that no edge touches.
export function layered(count, links, arrivals, departures) {
  const sequence = inSequence(count, links);
  const turn = new Map(sequence.map((item, at) => [item, at]));
  const forward = links.filter(([from, to]) => turn.get(from) < turn.get(to));
  const touched = new Set([...links.flat(), ...arrivals.map(([, to]) => to), ...departures]);
  const alone = [...Array(count).keys()].filter((item) => !touched.has(item));
  const row = ranks(sequence, forward);
  const height = touched.size ? Math.max(...row) + 1 : 0;
  const rows = Array.from({ length: height }, () => []);
  const cells = row.map((at, item) => (touched.has(item) ? add(rows, at, { item }) : null));
  const lanes = new Map();
  const lane = (at, key) => {
    const name = `${at} ${key}`;
    if (!lanes.has(name)) lanes.set(name, add(rows, at, { lane: key }));
    return lanes.get(name);
  };
  const join = (chain) => chain.slice(1).forEach((cell, at) => connect(chain[at], cell));
  for (const [from, to] of forward) {
    join([cells[from], ...between(row[from] + 1, row[to], (at) => lane(at, `item${from}`)), cells[to]]);
  }
  for (const [source, to] of arrivals) join([...between(0, row[to], (at) => lane(at, source)), cells[to]]);
  for (const from of departures) {
    join([cells[from], ...between(row[from] + 1, height, (at) => lane(at, `item${from}`))]);
  }
  order(rows);
  return { rows, row, alone };
}

function add(rows, at, cell) {
  const made = { ...cell, row: at, above: [], below: [] };
  rows[at].push(made);
  return made;
}

function connect(upper, lower) {
  if (!upper.below.includes(lower)) {
    upper.below.push(lower);
    lower.above.push(upper);
  }
}

function between(start, end, make) {
  return Array.from({ length: Math.max(0, end - start) }, (_, step) => make(start + step));
}

// The items so that links lead onward, and else as they are. Boxes may flow into each other, in a circle: there the
// earliest comes first, and a link leads back.
function inSequence(count, links) {
  const waits = new Array(count).fill(0);
  const targets = Array.from({ length: count }, () => []);
  for (const [from, to] of new Map(links.map((link) => [link.join(), link])).values()) {
    if (from === to) continue;
    waits[to] += 1;
    targets[from].push(to);
  }
  const ready = new Heap();
  for (const item of waits.keys()) if (waits[item] === 0) ready.push(item);
  const found = [];
  const isFound = new Array(count).fill(false);
  for (let earliest = 0; found.length < count; ) {
    while (isFound[earliest]) earliest += 1;
    const next = ready.pop() ?? earliest;
    isFound[next] = true;
    found.push(next);
    for (const to of targets[next]) if (--waits[to] === 0 && !isFound[to]) ready.push(to);
  }
  return found;
}

// Numbers, of which the least is taken out first.
class Heap {
  constructor() {
    this.items = [];
  }

  push(item) {
    const { items } = this;
    let at = items.push(item) - 1;
    for (let up; at && items[(up = (at - 1) >> 1)] > item; at = up) items[at] = items[up];
    items[at] = item;
  }

  pop() {
    const { items } = this;
    const [least, last] = [items[0], items.pop()];
    if (!items.length) return least;
    let at = 0;
    for (let down; (down = 2 * at + 1) < items.length; at = down) {
      if (items[down + 1] < items[down]) down += 1;
      if (items[down] >= last) break;
      items[at] = items[down];
    }
    items[at] = last;
    return least;
  }
}

// The longest way from a start; what nothing flows into stands right above the first that it flows into.
function ranks(sequence, links) {
  const row = new Array(sequence.length).fill(0);
  const targets = sequence.map(() => []);
  const fed = sequence.map(() => false);
  for (const [from, to] of links) {
    targets[from].push(to);
    fed[to] = true;
  }
  for (const item of sequence) {
    for (const to of targets[item]) row[to] = Math.max(row[to], row[item] + 1);
  }
  for (const item of sequence) {
    if (!fed[item] && targets[item].length) row[item] = Math.min(...targets[item].map((to) => row[to])) - 1;
  }
  return row;
}

// Cells near the middle of those they are linked with: few edges cross.
function order(rows) {
  const place = () => rows.forEach((cells) => cells.forEach((cell, at) => (cell.x = at - (cells.length - 1) / 2)));
  const settle = (cells, side) => {
    for (const cell of cells) {
      const near = cell[side];
      cell.wanted = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : cell.x;
    }
    cells.sort((a, b) => a.wanted - b.wanted);
    cells.forEach((cell, at) => (cell.x = at - (cells.length - 1) / 2));
  };
  place();
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    if (sweep % 2) [...rows].reverse().forEach((cells) => settle(cells, "below"));
    else rows.forEach((cells) => settle(cells, "above"));
  }
}
