// A Python file of the repository with numbered lines. Links to py/... lead here; without JavaScript, to the file itself.
import { element } from "./browser.js";
import { makeEditor } from "./editor.js";

const ROOT = new URL("..", import.meta.url);
const SHOWN = /^py\/[\w./-]+\.py$/;

export async function upgrade([place]) {
  place.dataset.ready = "";
  const path = new URLSearchParams(location.search).get("file") ?? "";
  const response = SHOWN.test(path) && !path.includes("..") ? await fetch(new URL(path, ROOT)) : { ok: false };
  if (!response.ok) return place.replaceChildren(element("p", {}, `There is no file ${path}.`));
  const name = path.slice("py/".length);
  document.title = name;
  document.querySelector("main h1").textContent = name;
  const raw = element("p", {}, element("a", { href: new URL(path, ROOT).href }, "The file as plain text"));
  const editor = element("div", { className: "bench bench-editor" });
  place.replaceChildren(raw, editor);
  makeEditor(editor, { label: name, text: await response.text(), readOnly: true });
}
