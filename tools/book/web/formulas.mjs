// Sets formulas when the book is built, for tools/book/hooks.py: stdin has a list of [TeX, whether it is a line of its own],
// stdout has the HTML of each. It has MathML for readers who hear the page.
import { text } from "node:stream/consumers";
import katex from "katex";

// What may stand in a formula of one line.
const SIGNS = { "\\cdot": "·", "\\infty": "∞", "\\bmod": "mod", "\\dots": "…", "-": "−", "'": "′", "<": "&lt;", ">": "&gt;" };
const NAMES = /^\\(ln|log|min|max)$/;
const BRACKETS = { "\\lfloor": "⌊", "\\rfloor": "⌋", "\\lceil": "⌈", "\\rceil": "⌉" };
const WORDS = /\\text\{([^{}\\]*)\}/;
const TOKEN = new RegExp(
  `${WORDS.source}|\\\\(?:cdot|infty|bmod|dots|ln|log|min|max|[lr]floor|[lr]ceil)(?![a-zA-Z])|\\\\[ ,]|[a-zA-Z]|\\d[\\d.,]*(?<![.,])|[-+=/(),.'<>^_{}]|\\s+`,
  "g",
);

const formulas = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(formulas.map(([tex, displayMode]) => plain(tex) ?? set(tex, displayMode))));

/**
 * A formula in one line needs its font, and sup and sub: a tenth of the elements that KaTeX makes, and a chapter has
 * dozens of formulas. undefined for what stands on several lines, such as a fraction or a sum.
 */
function plain(tex, displayMode) {
  if (displayMode) return undefined;
  const tokens = tex.replaceAll("{,}", ",").match(TOKEN) ?? [];
  if (tokens.join("") !== tex.replaceAll("{,}", ",")) return undefined;
  const html = line(tokens, false);
  return tokens.length ? undefined : `<span class="katex">${html}</span>`;
}

/** The tokens up to a closing brace, which are taken away, as HTML. isSmall: without room around its signs. */
function line(tokens, isSmall) {
  let [html, open] = ["", true]; // open: a sign that comes now stands before a number, not between two
  const group = () => (tokens[0] === "{" ? (tokens.shift(), line(tokens, true)) : line(tokens.splice(0, 1), true));
  while (tokens.length) {
    const token = tokens.shift();
    if (token === "}") return html;
    if (/^\s/.test(token)) continue;
    if (token === "^") html += `<sup>${group()}</sup>`;
    else if (token === "_") html += `<sub>${group()}</sub>`;
    else if (/^[a-zA-Z]$/.test(token)) html += `<var class="mathnormal">${token}</var>`;
    else if (WORDS.test(token)) html += WORDS.exec(token)[1];
    else if (NAMES.test(token)) html += `${token.slice(1)}${tokens.find((next) => next.trim()) === "(" ? "" : "\u2009"}`;
    else if (token === "\\," || token === "\\ ") html += " ";
    else if (/^(\\cdot|\\bmod|[-+=<>])$/.test(token)) {
      const sign = SIGNS[token] ?? token;
      html += open || (isSmall && token !== "\\bmod") ? sign : `\u00a0${sign} `;
    } else html += BRACKETS[token] ?? SIGNS[token] ?? token;
    open = /^(\\cdot|\\bmod|[-+=/(,<>]|\\l(floor|ceil))$/.test(token);
  }
  return html;
}

function set(tex, displayMode) {
  const html = katex.renderToString(tex, { displayMode, throwOnError: true });
  return html.replace(/<annotation.*?<\/annotation>/s, "").replace(/<\/?semantics>/g, "");
}
