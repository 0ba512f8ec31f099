// The worker of the theme's search box. The theme sends 0 (its own index, which is empty here) and 2 (what was typed), and
// waits for 1 and 3. The index of the book is loaded with the first letter.
import { makeRanking } from "./ranking.js";

let ranking;

onmessage = async ({ data: { type, data } }) => {
  if (type === 0) postMessage({ type: 1 });
  if (type !== 2) return;
  const question = data.trim();
  if (question) ranking ??= fetch(new URL("search.json", location.href)).then((answer) => answer.json()).then(makeRanking);
  postMessage({ type: 3, data: { items: question ? (await ranking)(question) : [] } });
};
