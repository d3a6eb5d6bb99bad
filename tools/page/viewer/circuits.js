// The circuits of recordings, each a page of its own in a frame, which can reach nothing outside itself.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ask, isLive } from "./asking.js";

export function useCircuits() {
  const [titles, setTitles] = useState([]);
  useEffect(() => {
    if (isLive) ask("circuits", {}).then((found) => setTitles(found.titles)).catch(() => {});
  }, []);
  return titles;
}

export function CircuitList({ circuits, state, set }) {
  return html`<h2>${circuits.length === 1 ? "A circuit" : "Circuits"}</h2><ul>${circuits.map((title, at) => html`<li key=${at}><button class="pick" aria-current=${state.circuit === at} onclick=${() => set({ circuit: state.circuit === at ? null : at })}>${title}</button></li>`)}</ul>`;
}

export function Circuit({ number, theme, close }) {
  const frame = useRef(null);
  const [page, setPage] = useState(null);
  useEffect(() => {
    setPage(null);
    ask("circuit", { circuit: number }).then((found) => setPage(found.page)).catch(() => setPage(""));
  }, [number]);
  const tell = () => frame.current?.contentWindow.postMessage(theme, "*");
  useEffect(tell, [theme]);
  if (page === "") return html`<section class="circuit"><p class="message">There is no such circuit.</p></section>`;
  return html`<section class="circuit" aria-label="Circuit">
    ${close ? html`<button class="close" title="back to the run (Esc)" aria-label="Back to the run" onclick=${close}>×</button>` : null}
    ${page ? html`<iframe ref=${frame} title="The circuit, to explore" sandbox="allow-scripts" srcdoc=${page} onload=${tell}></iframe>` : null}
  </section>`;
}

export function CircuitsAlone({ circuits, state, set, theme }) {
  return html`<div id="page"><header><h1>backprobe</h1></header><nav aria-label="Circuits"><${CircuitList} ...${{ circuits, state, set }} /></nav>
    <main><${Circuit} number=${state.circuit ?? 0} theme=${theme} /></main></div>`;
}
