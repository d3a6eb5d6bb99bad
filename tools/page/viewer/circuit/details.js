// The panel beside the diagram: all that is known of the value or box that is selected.

import { chart } from "./histogram.js";
import { product } from "./chain.js";
import { element, plural, rounded } from "./elements.js";
import { acrossWhat } from "./diagram.js";
import { nameOf, valueItem } from "./recording.js";
import { weightsOf } from "./sparkline.js";

// `select` selects an item, `choose` the edge by which the path goes on from a value; `beyond` leads out of the circuit.
export function details(recording, item, chain, { select, choose, close, beyond }) {
  const name = nameOf(recording, item);
  const parts =
    item.kind === "box"
      ? boxParts(recording, item.id, select)
      : [
          ...valueParts(recording, recording.values.get(item.id)),
          ...flowParts(recording, item.id, select),
          ...chainParts(recording, recording.values.get(item.id), chain, select, choose),
        ];
  return [
    element("button", { type: "button", class: "close", "aria-label": "Close details", onclick: close }, "×"),
    parts[0],
    beyond?.has(name)
      ? element("p", {}, element("button", { type: "button", class: "link", onclick: () => beyond.go(name) }, beyond.words))
      : "",
    ...parts.slice(1),
  ];
}

function link(recording, at, select) {
  const parts = recording.values.get(at).name.split(/(?<=[./:])/);
  const breakable = parts.flatMap((part) => [part, element("wbr")]).slice(0, -1);
  return element("button", { type: "button", class: "link", onclick: () => select(valueItem(at)) }, breakable);
}

function boxParts(recording, id, select) {
  const box = recording.boxes[id];
  const returned = box.returned.map((at) =>
    element("li", {}, link(recording, at, select), ` = ${recording.values.get(at).value}`),
  );
  return [
    element("h2", {}, box.name),
    element("p", {}, `${plural(recording.count[id], "value")} inside`),
    ...alarmsIn(recording, id, select),
    ...(box.alike ? across(recording, box, select) : [returned.length ? element("h3", {}, "Returns") : null, element("ul", {}, returned)]),
  ].filter(Boolean);
}

const MOST_ALARMS = 40;

function alarmsIn(recording, id, select) {
  const own = recording.insideOf(id).filter((value) => value.health === "nonfinite" || value.health === "blamed");
  if (!own.length) return [];
  const items = own.slice(0, MOST_ALARMS).map((value) => element("li", {}, link(recording, value.at, select)));
  if (own.length > MOST_ALARMS) items.push(element("li", { class: "faint" }, `and ${plural(own.length - MOST_ALARMS, "more value")}`));
  return [element("h3", {}, `${plural(own.length, "value")}: ${recording.alarm}`), element("ul", {}, items)];
}

const MOST_ALIKE = 500; // that are listed

// Boxes that are alike, or the turns of a loop, one below another, with what is compared across them.
function across(recording, box, select) {
  const { alike } = box;
  const weights = weightsOf(recording, alike);
  const row = (item, at) => {
    const to = element("button", { type: "button", class: "link", onclick: () => select(item) }, nameOf(recording, item));
    const { weight, isBad } = weights[at];
    const said = Number.isNaN(weight) ? "–" : rounded(weight);
    return element("tr", {}, element("th", { scope: "row" }, to), element("td", { class: isBad ? "alarm" : "" }, isBad ? `${said}, not finite inside` : said));
  };
  const titles = ["", recording.weighs].map((title) => element("th", { scope: "col" }, title));
  return [
    element("h3", {}, acrossWhat(box)),
    element("table", {}, element("thead", {}, element("tr", {}, titles)), element("tbody", {}, alike.slice(0, MOST_ALIKE).map(row))),
    alike.length > MOST_ALIKE ? element("p", { class: "faint" }, `and ${(alike.length - MOST_ALIKE).toLocaleString("en")} more`) : null,
  ];
}

function valueParts(recording, value) {
  const also = value.aliases.length ? element("p", { class: "faint" }, `also ${value.aliases.join(", ")}`) : null;
  const statement = value.statement === undefined ? null : element("pre", {}, value.statement);
  const gradient = value.gradient
    .map((line, at) => element("p", { class: at ? "faint" : "number" }, line))
    .slice(value.gradientStatistics ? 1 : 0);
  const number = value.valueStatistics ? null : element("p", { class: "number" }, value.value);
  const meaning = value.status === "ok" ? null : element("p", { class: "faint" }, value.meaning);
  return [
    element("h2", {}, value.name, " ", element("span", { class: "badge" }, value.kind)),
    also,
    ...value.notes.map((note) => element("p", {}, note)),
    value.place ? element("p", { class: "place", title: value.path }, value.place) : null,
    statement,
    ...(value.first
      ? bothParts(value)
      : [
          section("Value", number, described(value), chart(value.valueStatistics, "value")),
          recording.kind === "attribution" ? null : section("Gradient", gradient, meaning, chart(value.gradientStatistics, "gradient")),
        ]),
  ]
    .flat()
    .filter(Boolean);
}

// The values and gradients of two recordings that are compared, beside each other.
function bothParts(value) {
  const { first } = value;
  const second = { ...value, gradient: value.gradientText };
  return ["value", "gradient"].map((what) => {
    const column = (title, one) => {
      const statistics = one[`${what}Statistics`];
      const text = statistics ? null : element("p", { class: "number" }, one[what] || "–");
      return element("div", {}, element("h4", {}, title), text, chart(statistics, `${what} of the ${title}`));
    };
    const named = first.name === value.name ? "first" : `first: ${first.name}`;
    return section(what === "value" ? "Value" : "Gradient", what === "value" ? described(value) : null, element("div", { class: "pair" }, column(named, first), column("second", second)));
  });
}

const described = (value) => (value.described ? element("p", { class: "faint" }, value.described) : null);
const section = (title, ...parts) => element("section", {}, element("h3", {}, title), ...parts);

function flowParts(recording, at, select) {
  const into = recording.into.get(at);
  const onward = recording.onward.get(at);
  return [
    into.length ? section("Computed from", flows(recording, into, "from", select)) : null,
    onward.length ? section("Flows into", flows(recording, onward, "to", select)) : null,
  ].filter(Boolean);
}

function flows(recording, edges, end, select) {
  const columns = columnsOf(edges);
  const cell = (edge) => {
    if (!edge.carries) return [element("td", { colspan: columns.length || 1, class: "faint" }, "read: no derivative")];
    return numbersOf(edge, columns);
  };
  const rows = edges.map((edge) =>
    element("tr", {}, element("th", { scope: "row" }, link(recording, edge[end], select)), cell(edge)),
  );
  const titles = titlesOf("value", columns);
  return element(
    "div",
    { class: "wide" },
    element("table", {}, element("thead", {}, element("tr", {}, titles)), element("tbody", {}, rows)),
  );
}

// The columns that edges have something in: the local partial, and what flows back along them.
const COLUMNS = [
  ["partial", "local partial"],
  ["back", "flows back"],
  ["attributed", "attribution"],
];
const columnsOf = (edges) => COLUMNS.filter(([key]) => edges.some((edge) => edge[key] !== undefined));
const numbersOf = (edge, columns) => columns.map(([key]) => element("td", {}, edge[key] ?? "–"));
const titlesOf = (first, columns) =>
  [first, ...columns.map(([, title]) => title)].map((title) => element("th", { scope: "col" }, title));

function chainParts(recording, value, chain, select, choose) {
  if (value.status !== "ok" || !chain.path || !chain.path.steps.length) return [];
  const { path, count } = chain;
  const last = recording.values.get(path.end);
  const columns = columnsOf(path.steps.map(({ edge }) => edge));
  const rows = path.steps.slice(0, MOST_STEPS).map((step) => stepRow(recording, step, columns, select, choose));
  const more = path.steps.length - rows.length;
  const titles = titlesOf(`from ${value.title} through`, columns);
  const table = element(
    "table",
    { class: "path" },
    element("thead", {}, element("tr", {}, titles)),
    element("tbody", {}, rows),
  );
  return [
    section(
      "Chain rule",
      element("p", {}, ...formula(recording, value, last, path, count)),
      element("div", { class: "wide" }, table),
      more > 0 ? element("p", { class: "faint" }, `and ${plural(more, "more step")}`) : null,
      recording.partials ? null : asking(),
    ),
  ];
}

function stepRow(recording, { edge, options }, columns, select, choose) {
  const choices = options.map((one) =>
    element("option", { value: one.to, selected: one === edge }, recording.values.get(one.to).name),
  );
  const to =
    options.length === 1
      ? link(recording, edge.to, select)
      : element(
          "select",
          {
            "aria-label": `The path goes on from ${recording.values.get(edge.from).name} to`,
            "data-from": edge.from,
            onchange: (event) => choose(edge.from, Number(event.target.value)),
          },
          choices,
        );
  return element("tr", {}, element("th", { scope: "row" }, to), numbersOf(edge, columns));
}

const MOST_FACTORS = 6;
const MOST_STEPS = 100; // of a path, that are listed
const MOST_LETTERS = 120; // of the names in a formula

// The product along a path by names and in numbers, and how many other paths there are.
function formula(recording, value, last, path, count) {
  const name = (at) => recording.values.get(at).name;
  const seeded = path.seed !== null && Number(path.seed) !== 1;
  const names = path.steps.map(({ edge }) => `∂${name(edge.to)}/∂${name(edge.from)}`).reverse();
  const numbers = path.steps.map(({ edge }) => edge.number).reverse();
  const total = product(path);
  const others = count === 1n ? "" : ` One of ${count.toLocaleString("en")} paths${together(recording, value)}.`;
  if (names.length > MOST_FACTORS || names.join().length > MOST_LETTERS) {
    const whose = total === null ? "" : `, whose product is ${rounded(total, 6)}`;
    return [`${plural(names.length, "step")} to ${last.name}${whose}.${others}`];
  }
  const sides = [seeded ? ["cotangent", ...names] : names];
  if (total !== null) sides.push(seeded ? [path.seed, ...numbers] : numbers);
  const written = sides.map((factors, at) => (at ? factors.map((one) => rounded(one, 6)) : factors).join(" · "));
  if (total !== null && sides[1].length > 1) written.push(rounded(total, 6));
  return [element("code", {}, written.join(" = ")), others];
}

function together(recording, value) {
  if (recording.unsummed.includes(value.at)) return "";
  return `; together they sum to the gradient${value.number === null ? "" : ` ${rounded(value.number, 6)}`}`;
}

const asking = () =>
  element("p", { class: "faint" }, "Local partials were not recorded: bp.probe(…, partials=True) records them.");
