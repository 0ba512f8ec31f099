// Formulas: the text that pymdownx.arithmatex marks, set by KaTeX, with MathML for readers who hear the page.
import katex from "katex";

const MARKED = /^\\([([])([^]*)\\[)\]]$/;

export async function upgrade(places) {
  await new Promise((resolve) => {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL("math.css", import.meta.url).href, onload: resolve });
    document.head.append(link);
  });
  for (const place of places) {
    const [, bracket, formula] = place.textContent.trim().match(MARKED);
    katex.render(formula, place, { displayMode: bracket === "[", throwOnError: false });
    await new Promise((resolve) => setTimeout(resolve)); // between two formulas the page answers
  }
  await document.fonts.ready;
  for (const place of places) if (place.scrollWidth > place.clientWidth) place.tabIndex = 0; // it scrolls: keys reach it
}
