// Sets formulas when the book is built, for tools/book/hooks.py: stdin has a list of [TeX, whether it is a line of its own],
// stdout has the HTML of each. It has MathML for readers who hear the page.
import { text } from "node:stream/consumers";
import katex from "katex";

const formulas = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(formulas.map(([tex, displayMode]) => plain(tex) ?? set(tex, displayMode))));

/** A letter or a number needs its font alone: ten elements fewer, and a chapter has dozens of them. */
function plain(tex) {
  if (/^[A-Za-z]$/.test(tex)) return `<var class="katex mathnormal">${tex}</var>`;
  return /^\d[\d.]*$/.test(tex) ? `<span class="katex">${tex}</span>` : undefined;
}

function set(tex, displayMode) {
  const html = katex.renderToString(tex, { displayMode, throwOnError: true });
  return html.replace(/<annotation.*?<\/annotation>/s, "").replace(/<\/?semantics>/g, "");
}
