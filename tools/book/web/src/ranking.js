// Which sections of the book answer a question, best first. The index is made by tools/book/hooks.py. What readers say for
// what a page has stands in a comment of the page: <!-- search: words, other words -->.

// Words that tell nothing of what is looked for.
const STOP = `a about all am an and another any are as at be been between by can come could course did do for from get give go has
  have how i if in into is it its just let like list ll make many may me mini_vllm much must my need not now of on only or
  other our out own per please s should show so some something t take tell than that the their them then there these they
  thing this those to try us use used using want was we what when where which who why will with work would you your`;
// What newcomers say, and what the book says for it.
const SYNONYMS = {
  "after": "next",
  "answer solution": "reference give up",
  "api": "openai server",
  "architecture": "family",
  "begin beginner getting quickstart start tutorial": "first begin",
  "benchmark fast faster performance result speed": "measured fast",
  "call function": "tool",
  "chat": "ask",
  "compare comparison difference different versus": "differs beside",
  "container": "docker",
  "cuda nvidia": "gpu",
  "definition meaning term": "glossary",
  "duration hour time": "long minutes",
  "error fail failing": "red message",
  "exercise": "lab",
  "json": "schema form mask",
  "laptop": "machine",
  "mac macbook osx": "macos",
  "multi multiple": "several",
  "online": "browser",
  "oom vram": "memory",
  "option flag": "option flag",
  "progress": "done",
  "quantization": "int8 quantised byte",
  "requirement": "before need disk",
  "safe security": "harm refused stranger",
  "space": "disk",
  "support": "read refused family",
  "version": "newer",
};
const WORD = /\d+\.\d+|[\p{L}\p{N}_]+/gu; // the number of a lab is one word
const ALIKE_COUNTS = 0.8; // a word that stands for one that was asked
const BEGUN_COUNTS = 0.5; // a word that begins like the last one
const ASKS_FOR_A_TERM = /^(what('| i)s|what are|define|explain|meaning of|definition of)\b/i;
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

const wordsIn = (text) => [...text.toLowerCase().matchAll(WORD)].map(([word]) => word);
const telling = (text) => wordsIn(text).filter((word) => !STOPPED.has(stem(word)));
const stems = (text) => text.split(/\s+/).map(stem);
const STOPPED = new Set(stems(STOP));
const ALIKE = new Map(Object.entries(SYNONYMS).flatMap(([said, meant]) => stems(said).map((word) => [word, stems(meant)])));

/** The words of a text; a name of the code gives its parts, too. */
function* wordsOf(text) {
  for (const word of wordsIn(text)) {
    yield stem(word);
    if (/\w_\w/.test(word)) yield* word.split("_").filter(Boolean).map(stem);
  }
}

/** Whether a title says what was asked, in these words or in others for them: no more and no less. */
const isNamed = (names, terms) =>
  names.length > 0 &&
  terms.every(({ roots }) => roots.some((root) => names.includes(root))) &&
  names.every((name) => terms.some(({ roots }) => roots.includes(name)));

function countsOf(text) {
  const counts = new Map();
  for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** A function from a question to the pages that answer it, each a list of sections, as the theme shows them. */
export function makeRanking({ kinds, sections }) {
  const found = sections.map(([location, title, text, kind, said]) => {
    const inText = countsOf(text);
    const [page, id] = location.split("#");
    const inTitle = countsOf(kind === "API" ? `${title} ${id}` : title); // a method is found by its class, too
    const joined = ` ${[title, text, ...said.split(", ")].map((each) => [...wordsOf(each)].join(" ")).join(" . ")} `;
    const names = [title, ...said.split(", ")].map((name) => telling(name).map(stem));
    return { location, title, text, kind, inText, joined, inTitle, names, ofPage: countsOf(`${title} ${said} ${page}`), page };
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
      const count = (counts) => words.reduce((most, [word, share]) => Math.max(most, (counts.get(word) ?? 0) * share), 0);
      const often = count(section.inText) / (0.5 + (0.5 * length(section)) / usual);
      const times = often + 5 * count(section.inTitle) + 4 * count(pages.get(section.page)?.ofPage ?? new Map());
      sum += (weight * times) / (times + 1.5);
      met += times > 0 ? weight : 0;
      all += weight;
    }
    const title = [...wordsOf(section.title)].join(" ");
    const isTitle = section.names.some((names) => isNamed(names, terms)) ? 1 : 0;
    const isOfTitle = phrase.includes(" ") && ` ${title} `.includes(` ${phrase} `) ? 1 : 0;
    const together = terms.slice(1).filter((term, i) => section.joined.includes(` ${terms[i].stem} ${term.stem} `));
    return sum * (met / all) ** 2 * (1 + 0.4 * together.length + Math.max(isTitle, isOfTitle)) * kinds[section.kind];
  }

  return (question) => {
    question = question.replace(/\b(lab\w* )(\d\.\d+)/i, "$10$2"); // 3.1 is called 03.1
    const asked = wordsIn(question);
    const typed = telling(question).length ? telling(question) : asked;
    const terms = typed.map((word, i) => {
      const root = stem(word);
      const alike = ALIKE.get(root) ?? [];
      const isWhole = i < typed.length - 1 || word.length < 3;
      const begun = isWhole ? [] : [...spread.keys()].filter((each) => each !== root && each.startsWith(word));
      const words = [[root, 1], ...alike.map((each) => [each, ALIKE_COUNTS]), ...begun.map((each) => [each, BEGUN_COUNTS])];
      const sections = [root, ...alike].map((each) => spread.get(each)).find(Boolean) ?? 1;
      return { stem: root, roots: [root, ...alike], words, weight: Math.log(1 + found.length / sections) };
    });
    const groups = new Map();
    const lift = ASKS_FOR_A_TERM.test(question) ? { Glossary: 1.6 } : {};
    for (const section of terms.length ? found : []) {
      const points = score(section, terms, asked.map(stem).join(" ")) * (lift[section.kind] ?? 1);
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
