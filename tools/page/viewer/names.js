// Names as a tree, and the tree as rows: a closed module is one row that stands for all names in it.

const MOST_ROWS = 80; // that are open at first
const MOST_FOUND = 1000; // names that are searched, whose modules are all open
const PART = /(?:`[^`]*`|[^.:/`])+[.:/]?|[.:/]/g;

class Node {
  constructor(key, label, depth) {
    Object.assign(this, { key, label, depth, own: false, children: new Map() });
  }

  has(key) {
    // Is there a module or name of this key?
    return this.key === key || [...this.children.values()].some((child) => (child.key === key || key.startsWith(child.key)) && child.has(key));
  }

  get names() {
    // Itself, if it is a name, and all that is below it.
    this.all ??= [...(this.own ? [this.key] : []), ...[...this.children.values()].flatMap((child) => child.names)];
    return this.all;
  }
}

export function treeOf(names) {
  const root = new Node("", "", 0);
  for (const name of names) {
    let node = root;
    let path = "";
    for (const part of name.match(PART) ?? [name]) {
      path += part;
      const key = path.length < name.length ? path.replace(/[.:/]$/, "") || path : path;
      const label = /^[.:/]$/.test(part) ? part : part.replace(/[.:/]$/, "");
      if (key === node.key) continue;
      if (!node.children.has(key)) node.children.set(key, new Node(key, label, node.depth + 1));
      node = node.children.get(key);
    }
    node.own = true;
  }
  shorten(root);
  return root;
}

function shorten(node) {
  // A part that only leads to one other is said with it: "return.0".
  for (const [key, child] of node.children) {
    let end = child;
    while (!end.own && end.children.size === 1) {
      const [inner] = end.children.values();
      const between = inner.key.slice(end.key.length, inner.key.length - inner.label.length) || ".";
      inner.label = `${end.label}${between}${inner.label}`;
      end = inner;
    }
    if (end !== child) {
      lift(end, node.depth + 1);
      node.children.set(key, end);
    }
    shorten(end);
  }
}

function lift(node, depth) {
  node.depth = depth;
  for (const child of node.children.values()) lift(child, depth + 1);
}

export function openAtFirst(root) {
  // Level by level, as long as that is not too much to look over.
  const open = new Set();
  let level = [...root.children.values()];
  let rows = level.length;
  while (level.length) {
    const inner = level.filter((node) => node.children.size);
    const next = inner.flatMap((node) => [...node.children.values()]);
    rows += next.length;
    if (rows > MOST_ROWS) break;
    for (const node of inner) open.add(node.key);
    level = next;
  }
  return open;
}

export function rowsOf(root, isOpen, search = "") {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (name) => words.every((word) => name.toLowerCase().includes(word));
  const rows = [];
  const walk = (node) => {
    const shown = [];
    for (const child of node.children.values()) {
      const found = words.length ? child.names.filter(fits) : null;
      if (!found || found.length) shown.push([child, found]);
    }
    shown.forEach(([child, found], at) => {
      const hasInner = child.children.size > 0;
      const open = hasInner && (words.length ? found.length <= MOST_FOUND || isOpen(child.key) : isOpen(child.key));
      const stands = hasInner && !open ? found ?? child.names : child.own ? [child.key] : [];
      const asks = hasInner && !open ? `${child.key}*` : child.key;
      rows.push({ key: child.key, label: child.label, depth: child.depth, hasInner, open, own: child.own, stands, asks,
                  place: at + 1, siblings: shown.length, names: child.names });
      if (open) walk(child);
    });
  };
  walk(root);
  return rows;
}

export function modulesAround(name) {
  const parts = name.match(PART) ?? [name];
  return parts.map((_, at) => parts.slice(0, at + 1).join("").replace(/[.:/]$/, "")).filter((key) => key !== name);
}
