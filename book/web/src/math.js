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
    if (place.scrollWidth > place.clientWidth && bracket === "[") place.tabIndex = 0; // scrolls, so it must be reached
  }
}
