// Light or dark: as the system is, until a page around this one says what it is itself (a notebook has its own theme).

const THEMES = ["light", "dark"];

export function followTheme(root) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let outer = null;
  const show = () => (root.dataset.theme = outer ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", show);
  addEventListener("message", (event) => {
    if (event.source !== parent || !THEMES.includes(event.data)) return;
    outer = event.data;
    show();
  });
  show();
}
