// Sets formulas when the book is built, for tools/book/hooks.py: stdin has a list of [TeX, whether it is a line of its own],
// stdout has the HTML of each. It has MathML for readers who hear the page.
import { text } from "node:stream/consumers";
import katex from "katex";

const formulas = JSON.parse(await text(process.stdin));
const html = formulas.map(([tex, displayMode]) => katex.renderToString(tex, { displayMode, throwOnError: true }));
process.stdout.write(JSON.stringify(html));
