// Which sections of the book answer a question, best first. The index is made by tools/book/hooks.py.

const STOP = new Set(
  `a an and any are as at be by can do does for from has have how i if in into is it its me my of on or should so than that
  the their them then there this to use was we what when where which who why will with would you your`.split(/\s+/),
);
const WORD = /\d+\.\d+|[\p{L}\p{N}_]+/gu; // the number of a lab is one word
const NUM_SHOWN = 3; // sections of a page; the others are one click away
const MOST = 20; // pages
const SNIPPET = 170; // characters

/** A word without its ending, so that "installs" finds "installation". */
export function stem(word) {
  if (word.length < 4 || /[\d_]/.test(word)) return word;
  const root = word.replace(/ies$/, "y").replace(/(?<!s)s$/, "");
  const cut = root.replace(/(?:ation|ion|ing|ed|es|e)$/, "");
  return (cut.length < 3 ? root : cut).replace(/([bdgmnprt])\1$/, "$1");
}

/** The words of a text; a name of the code gives its parts, too. */
function* wordsOf(text) {
  for (const [word] of text.toLowerCase().matchAll(WORD)) {
    yield stem(word);
    if (/\w_\w/.test(word)) yield* word.split("_").filter(Boolean).map(stem);
  }
}

function countsOf(text) {
  const counts = new Map();
  for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** A function from a question to the pages that answer it, each a list of sections, as the theme shows them. */
export function makeRanking({ kinds, sections }) {
  const found = sections.map(([location, title, text, kind]) => {
    const inText = countsOf(text);
    const [page, id] = location.split("#");
    const inTitle = countsOf(kind === "API" ? `${title} ${id}` : title); // a method is found by its class, too
    const joined = ` ${[...wordsOf(title)].join(" ")} . ${[...wordsOf(text)].join(" ")} `;
    return { location, title, text, kind, inText, joined, inTitle, page };
  });
  const pages = new Map(found.filter(({ location, page }) => location === page).map((each) => [each.page, each]));
  const spread = new Map(); // word: the number of sections that have it
  for (const { inText, inTitle } of found) {
    for (const word of new Set([...inText.keys(), ...inTitle.keys()])) spread.set(word, (spread.get(word) ?? 0) + 1);
  }
  const length = ({ inText }) => inText.size;
  const usual = found.reduce((sum, each) => sum + length(each), 0) / found.length;

  /** How well a section answers: rare words count more, and so do words of a title, and words that stand together.
   *
   * phrase: all words that were asked, in their order, with those that tell nothing: a title may have them so. */
  function score(section, terms, phrase) {
    let sum = 0;
    let met = 0;
    let all = 0;
    for (const { words, weight } of terms) {
      const count = (counts) => words.reduce((most, word, i) => Math.max(most, (counts.get(word) ?? 0) / (i ? 2 : 1)), 0);
      const often = count(section.inText) / (0.5 + (0.5 * length(section)) / usual);
      const times = often + 5 * count(section.inTitle) + 2 * count(pages.get(section.page)?.inTitle ?? new Map());
      sum += (weight * times) / (times + 1.5);
      met += times > 0 ? weight : 0;
      all += weight;
    }
    const title = [...wordsOf(section.title)].join(" ");
    const isTitle = terms.map(({ words: [word] }) => word).join(" ") === title ? 1 : 0;
    const isOfTitle = phrase.includes(" ") && ` ${title} `.includes(` ${phrase} `) ? 1 : 0;
    const together = terms.slice(1).filter(({ words: [word] }, i) => section.joined.includes(` ${terms[i].words[0]} ${word} `));
    return sum * (met / all) ** 2 * (1 + 0.4 * together.length + Math.max(isTitle, isOfTitle)) * kinds[section.kind];
  }

  return (question) => {
    const asked = [...question.toLowerCase().matchAll(WORD)].map(([word]) => word);
    const telling = asked.filter((word) => !STOP.has(word));
    const typed = telling.length ? telling : asked;
    const terms = typed.map((word, i) => {
      const words = [stem(word)];
      if (i === typed.length - 1 && word.length > 2) {
        words.push(...[...spread.keys()].filter((each) => each !== words[0] && each.startsWith(word))); // not typed to its end
      }
      const sections = Math.max(1, ...words.slice(0, 1).map((each) => spread.get(each) ?? 0));
      return { words, weight: Math.log(1 + found.length / sections) };
    });
    const groups = new Map();
    for (const section of terms.length ? found : []) {
      const points = score(section, terms, asked.map(stem).join(" "));
      if (points > 0) groups.set(section.page, [...(groups.get(section.page) ?? []), { section, points }]);
    }
    const ranked = [...groups].map(([page, hits]) => {
      hits.sort((a, b) => b.points - a.points);
      const points = hits.slice(0, NUM_SHOWN).reduce((sum, hit, i) => sum + hit.points * 0.3 ** Math.min(i, 1), 0);
      return { page, hits, points }; // a page that is about it has several sections
    });
    ranked.sort((a, b) => b.points - a.points);
    return ranked.slice(0, MOST).map(({ page, hits }) => itemOf(pages.get(page), hits, typed));
  };
}

/** A page as the theme shows it: itself, then its sections; those that score less than the page are folded away. */
function itemOf(page, hits, typed) {
  const best = hits[0].points;
  const others = hits.filter(({ section }) => section !== page);
  const marks = new RegExp(`(?<![\\p{L}\\p{N}])(?:${typed.map((word) => stem(word)).join("|")})[\\p{L}\\p{N}]*`, "giu");
  const shown = (section, points) => ({
    location: section.location,
    title: marked(section.title, marks),
    text: marked(snippet(section.text, marks), marks),
    score: points,
    terms: Object.fromEntries(typed.map((word) => [word, section.joined.includes(` ${stem(word)}`)])),
    ...(section === page ? { tags: [page.kind] } : {}),
  });
  return [
    shown(page ?? hits[0].section, best),
    ...others.map(({ section }, i) => shown(section, i < NUM_SHOWN ? best + (hits[0].section === section ? 1 : 0) : best / 2)),
  ];
}

const escaped = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

function marked(text, marks) {
  let last = 0;
  let html = "";
  for (const { index, 0: word } of text.matchAll(marks)) {
    html += `${escaped(text.slice(last, index))}<mark>${escaped(word)}</mark>`;
    last = index + word.length;
  }
  return html + escaped(text.slice(last));
}

/** The sentence of the first word that was asked for, and what follows it. */
function snippet(text, marks) {
  const first = Math.max(0, text.search(marks));
  const sentence = text.lastIndexOf(". ", first) + 1;
  const start = first - sentence < SNIPPET / 2 ? sentence : text.indexOf(" ", first - SNIPPET / 2);
  const cut = text.slice(start, start + SNIPPET).trim();
  return start + SNIPPET < text.length ? `${cut.slice(0, cut.lastIndexOf(" "))} ...` : cut;
}
