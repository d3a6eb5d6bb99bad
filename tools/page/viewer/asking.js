// Questions and their answers: from the server that gave this page, or from the page itself where it is a file.

import { unzipped } from "./unzipped.js";

const { live, start = {}, runs: keptRuns, store } = JSON.parse(document.getElementById("data").textContent);
const token = live ? takeToken() : "";

export const isLive = live;
export const atFirst = start; // what is looked at where the address says nothing

function takeToken() {
  // It comes in the fragment, which is never sent, and goes from the address at once; this tab alone remembers it.
  const place = `backprobe ${location.port}`;
  const words = new URLSearchParams(location.hash.slice(1));
  const given = words.get("token");
  if (given !== null) {
    sessionStorage.setItem(place, given);
    words.delete("token");
    history.replaceState(null, "", `#${words}`);
  }
  return given ?? sessionStorage.getItem(place) ?? "";
}

export class Refused extends Error {
  constructor(status, headline, found) {
    super(headline);
    Object.assign(this, { status, found });
  }
}

export async function ask(question, query) {
  const text = `${question}?${new URLSearchParams(query)}`;
  return read(store ? await kept(question, query, text) : await asked(text));
}

async function fetched(path, signal) {
  try {
    return await fetch(path, { headers: { "X-Backprobe-Token": token }, cache: "no-store", signal });
  } catch {
    throw new Refused(0, "The viewer's server does not answer.", "Has its program ended?");
  }
}

async function asked(text) {
  const answer = await fetched(`/answer/${text}`);
  if (answer.ok) return answer.arrayBuffer();
  const said = await answer.text();
  if (!answer.headers.get("Content-Type").startsWith("application/json")) throw new Refused(answer.status, said, "");
  const { error, found } = JSON.parse(said);
  throw new Refused(answer.status, error, found);
}

async function kept(question, query, text) {
  const found = store[text] ?? store[Object.keys(store).find((key) => isAbout(key, question, query))];
  if (!found) throw new Refused(404, "This is not in the file.", "backprobe view RUN has all of it");
  return unzipped(found);
}

function isAbout(key, question, query) {
  // A file has one window and one number of bins of each field.
  const at = key.indexOf("?");
  const own = new URLSearchParams(key.slice(at + 1));
  if (key.slice(0, at) !== question) return false;
  return ["run", "field", "name", "step", "kind", "with", "other"].every((word) => own.get(word) === (query[word] === undefined ? null : String(query[word])));
}

function read(bytes) {
  const size = new DataView(bytes).getUint32(0, true);
  const { arrays, ...head } = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, size)));
  let at = 4 + size;
  for (const [name, kind, length] of arrays) {
    head[name] = new (kind === "f4" ? Float32Array : Uint32Array)(bytes, at, length);
    at += 4 * length;
  }
  return head;
}

export const hasSteps = (run, step) => live || Object.keys(store).some((key) => isAbout(key, "step", { run, step }));

export function follow(tell, fail) {
  // Hears of every change of the runs and of what is beside them, until what it returns is called. A connection that
  // breaks is made again.
  if (!live) {
    (async () => tell({ runs: keptRuns, others: store["others?"] ? (await ask("others")).others : [] }))();
    return () => {};
  }
  const stop = new AbortController();
  (async () => {
    while (!stop.signal.aborted) {
      try {
        await listen(tell, stop.signal);
      } catch (error) {
        if (stop.signal.aborted) return;
        fail(error);
        if (error.status === 403) return;
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  })();
  return () => stop.abort();
}

async function listen(tell, signal) {
  const answer = await fetched("/events", signal);
  if (!answer.ok) throw new Refused(answer.status, await answer.text(), "");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = "", part; !(part = await reader.read()).done; ) {
    const events = (text + part.value).split("\n\n");
    text = events.pop();
    if (events.length) tell(JSON.parse(events.at(-1).replace(/^data: /, "")));
  }
}
