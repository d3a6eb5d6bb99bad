// What is shown beside runs: circuits of recordings, comparisons of two, and sweeps. What draws circuits is a script of
// its own, which is asked for when one is wanted.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { ask } from "./asking.js";
import { Message } from "./controls.js";
import { Sweep } from "./sweep.js";

const KINDS = {
  circuit: ["A circuit", "Circuits"], diff: ["A comparison", "Comparisons"],
  attribution: ["An attribution", "Attributions"], sweep: ["A sweep", "Sweeps"],
};

const MOST = 40; // of a kind that are listed at first, and that are asked for a name

function inOrder(others) {
  // What was given, and then what was saved last.
  return others.map((one, at) => ({ ...one, at })).sort((a, b) => (b.saved ?? Infinity) - (a.saved ?? Infinity) || a.at - b.at);
}

export function OtherLists({ others, state, set }) {
  const [most, setMost] = useState(MOST);
  return Object.entries(KINDS).map(([kind, titles]) => {
    const own = inOrder(others).filter((one) => one.kind === kind);
    const listed = own.filter(({ at }, place) => place < most || at === state.circuit);
    const more = own.length - listed.length;
    return own.length ? html`<h2>${titles[+(own.length > 1)]}</h2><ul>${listed.map(({ title, at }) => html`<li key=${at}><button class="pick" aria-current=${state.circuit === at} onclick=${() => set({ circuit: state.circuit === at ? null : at, value: null })}>${title}</button></li>`)}</ul>
      ${more ? html`<button class="link" onclick=${() => setMost(Infinity)}>and ${more} more</button>` : null}` : null;
  });
}

const kept = new Map();

function askOnce(question, other, { saved }) {
  // Once for each time that it was saved.
  const key = `${question} ${other} ${saved}`;
  if (!kept.has(key)) kept.set(key, ask(question, { other }));
  return kept.get(key);
}

export function usePlaces(name, others) {
  // The circuits and sweeps that have something of this name.
  const [found, setFound] = useState({ name: null, places: [] });
  useEffect(() => {
    let isWanted = true;
    const has = (one) => askOnce("names", one.at, one).then(({ names }) => (names.includes(name) ? one : null)).catch(() => null);
    Promise.all(inOrder(others).slice(0, MOST).map(has)).then((places) => isWanted && setFound({ name, places: places.filter(Boolean) }));
    return () => (isWanted = false);
  }, [name, others]);
  return found.name === name ? found.places : [];
}

let drawing = null;

function load() {
  // The script of circuits, which the page's policy knows by its sum, and their style.
  drawing ??= ask("circuit", {}).then(({ script, style }) => {
    const tag = document.createElement("script");
    tag.textContent = script;
    document.head.append(tag);
    const base = document.querySelector("style").textContent; // the first: what all of the page has in common
    const sheets = [base, style].map((text) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(text);
      return sheet;
    });
    return { Circuit: globalThis.BackprobeCircuit, sheets };
  });
  return drawing;
}

function Circuit({ number, one, value, beyond }) {
  const host = useRef(null);
  const [made, setMade] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let circuit = null;
    let isWanted = true;
    Promise.all([load(), askOnce("other", number, one)]).then(([{ Circuit: Made, sheets }, { shown }]) => {
      if (!isWanted) return;
      const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
      root.adoptedStyleSheets = sheets;
      const box = document.createElement("div");
      box.style.height = "100%";
      root.replaceChildren(box);
      circuit = new Made(root, box, structuredClone(shown), beyond);
      setMade(circuit);
    }).catch((error) => isWanted && setProblem(error));
    return () => {
      isWanted = false;
      circuit?.close();
      setMade(null);
    };
  }, [number, one.saved]);
  useEffect(() => {
    if (value !== null) made?.selectNamed(value);
  }, [made, value]);
  return html`<div class="host" ref=${host}></div>${problem ? html`<${Message} title="This circuit cannot be read"><p>${problem.message} ${problem.found}</p><//>` : null}`;
}

export function Other({ number, others, value = null, beyond = NOWHERE, close, theme, set, state }) {
  const kind = others[number]?.kind;
  const words = useMemo(() => ({ ...beyond, words: "show it in the run", chose: (one) => set({ value: one }) }), [beyond]);
  if (!kind) return html`<section class="circuit"><p class="message">There is no such circuit.</p></section>`;
  return html`<section class="circuit" aria-label=${KINDS[kind][0]}>
    ${kind === "sweep" ? html`<${Sweep} key=${number} ...${{ load: () => askOnce("other", number, others[number]), number, theme, beyond: words, set, state }} />` : html`<${Circuit} key=${number} number=${number} one=${others[number]} value=${value} beyond=${words} />`}
    ${close ? html`<button class="close" title="back to the run (Esc)" aria-label="Back to the run" onclick=${close}>×</button>` : null}
  </section>`;
}

const NOWHERE = { has: () => false, go: () => {} };

export function OthersAlone({ others, state, set, theme }) {
  const toggle = () => set({ theme: theme === "dark" ? "light" : "dark" });
  const isOne = others.length === 1;
  return html`<div id="page" class=${isOne ? "single" : ""}><header><h1>backprobe</h1><span class="space"></span><span class="last"><button title="light or dark" aria-label="Light or dark" onclick=${toggle}>◐</button></span></header>
    ${isOne ? null : html`<nav aria-label="What is shown"><${OtherLists} ...${{ others, state: { ...state, circuit: state.circuit ?? 0 }, set }} /></nav>`}
    <main><${Other} ...${{ number: state.circuit ?? 0, others, value: state.value, theme, set, state }} /></main></div>`;
}
