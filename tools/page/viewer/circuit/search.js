// Search by name: a list of values that hold all the words, walked with the arrow keys.

import { element, plural } from "./elements.js";
import { valueItem } from "./recording.js";

const MOST = 50;

export function searchFor(recording, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const value of recording.values.values()) {
    const names = [value.name, ...value.aliases].join(" ").toLowerCase();
    if (words.every((word) => names.includes(word))) found.push(value);
  }
  const exact = (value) => [value.name, value.title].some((name) => name.toLowerCase() === text.trim().toLowerCase());
  return found.sort((a, b) => exact(b) - exact(a) || a.name.length - b.name.length || a.at - b.at);
}

export function makeSearch(recording, input, list, { select, say }) {
  let active = -1;
  const options = () => [...list.querySelectorAll("[role=option]")];
  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const activate = (at) => {
    const all = options();
    if (!all.length) return;
    active = (at + all.length) % all.length;
    all.forEach((option, each) => option.setAttribute("aria-selected", each === active));
    input.setAttribute("aria-activedescendant", all[active].id);
    all[active].scrollIntoView({ block: "nearest" });
  };
  const take = (at) => {
    close();
    select(valueItem(at));
  };
  const update = () => {
    const found = searchFor(recording, input.value);
    list.replaceChildren(
      ...found.slice(0, MOST).map((value, at) =>
        element(
          "li",
          {
            role: "option",
            id: `option${at}`,
            "data-at": value.at,
            "aria-selected": "false",
            onmousedown: (event) => event.preventDefault(),
            onclick: () => take(value.at),
          },
          element("b", {}, value.name),
          " ",
          element("span", { class: "faint" }, value.expression ?? ""),
        ),
      ),
    );
    if (found.length > MOST)
      list.append(element("li", { class: "faint", role: "none" }, `and ${plural(found.length - MOST, "more value")}`));
    if (!found.length && input.value.trim())
      list.append(element("li", { class: "faint", role: "none" }, "no value has this name"));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (input.value.trim()) say(plural(found.length, "value") + " found");
    active = -1;
    if (found.length) activate(0);
    else input.removeAttribute("aria-activedescendant");
  };
  input.addEventListener("input", update);
  input.addEventListener("focus", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") activate(active + 1);
    else if (event.key === "ArrowUp") activate(active - 1);
    else if (event.key === "Enter" && options()[active]) take(Number(options()[active].dataset.at));
    else if (event.key === "Escape") {
      event.stopPropagation();
      input.value = "";
      close();
      return;
    } else return;
    event.preventDefault();
  });
}
