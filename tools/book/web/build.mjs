// `npm run build`: bundles src/ into dist/, beside Pyodide, which a page loads when it uses it. The hook
// of mkdocs copies dist/ into the site's assets/.
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { build } from "esbuild";

const here = (path) => new URL(path, import.meta.url);
const file = (path) => here(path).pathname;
const TIMELINE = "../../../mini_vllm/observe/timeline.js"; // <kv-timeline>, which mini_vllm itself draws traces with
const PYODIDE = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"];

await rm(here("dist"), { recursive: true, force: true });
await build({
  entryPoints: [file("src/book.js"), file("src/worker.js"), file("src/math.css")],
  outdir: file("dist"),
  bundle: true,
  splitting: true, // what a page may not use is a file of its own
  format: "esm",
  target: "es2022",
  minify: true,
  chunkNames: "[name]-[hash]",
  external: ["./pyodide/*"],
  loader: { ".woff2": "file", ".woff": "empty", ".ttf": "empty" },
  assetNames: "fonts/[name]",
  alias: { timeline: file(existsSync(here(TIMELINE)) ? TIMELINE : "src/no-timeline.js") },
  legalComments: "none",
  logLevel: "warning",
});
// The theme starts its worker as a script, not as a module.
await build({
  entryPoints: [file("src/search.js")],
  outdir: file("dist"),
  bundle: true,
  format: "iife",
  target: "es2022",
  minify: true,
  logLevel: "warning",
});

await mkdir(here("dist/pyodide"));
for (const name of PYODIDE) await cp(here(`node_modules/pyodide/${name}`), here(`dist/pyodide/${name}`));
const lock = JSON.parse(await readFile(here("node_modules/pyodide/pyodide-lock.json"), "utf-8"));
await writeFile(here("dist/pyodide/pyodide-lock.json"), JSON.stringify({ ...lock, packages: {} })); // none is offered

const INTER = "node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2";
// No line waits for the font: a page that is drawn before it is there keeps the system's, so no line breaks again.
await cp(here(INTER), here("dist/fonts/inter.woff2"));
await writeFile(
  here("dist/inter.css"),
  `@font-face{font-family:Inter;font-weight:100 900;font-display:optional;src:url(fonts/inter.woff2) format("woff2")}\n`,
);

// What is bundled keeps its licences.
const LICENCES = {
  "@codemirror/view": "CodeMirror",
  "@fontsource-variable/inter": "Inter",
  "@lezer/common": "Lezer",
  katex: "KaTeX",
};
const texts = await Promise.all(
  Object.entries(LICENCES).map(async ([name, title]) => {
    return `${title}\n\n${await readFile(here(`node_modules/${name}/LICENSE`), "utf-8")}`;
  }),
);
texts.push("Pyodide: Mozilla Public License 2.0, https://github.com/pyodide/pyodide; Python: PSF License 2.0\n");
await writeFile(here("dist/licences.txt"), texts.join("\n---\n\n"));
