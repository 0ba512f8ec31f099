// Labs in a page: the stub to write in, graded by the same tests as on disk, three hints, and the reference.
import { makeBench } from "./bench.js";
import { button, countOf, element, recall, remember, textOf } from "./browser.js";
import { makeEditor } from "./editor.js";
import { ask, Late } from "./python.js";

const HERE = new URL(".", import.meta.url);
const MARKS = { passed: "✓", failed: "✗", todo: "✗" };
const PLACE = /(lab hint [\d.]+|docs\/[\w./-]+\.md(?:#[\w-]+)?)/; // what a message names: a hint, a section

export function upgrade(places) {
  places.forEach(async (place) => {
    place.dataset.ready = "";
    const response = await fetch(new URL(`labs/${place.dataset.lab}.json`, HERE));
    if (response.ok) makeLab(place, await response.json()); // else the text in the page says how to do it on disk
  });
}

// --- the text, kept from visit to visit -------------------------------------------------------------------------

const kept = (lab) => recall(textOf(lab.id)) ?? lab.stub;
const keep = (lab, text) => remember(textOf(lab.id), text === lab.stub ? null : text);

// --- the lab ---------------------------------------------------------------------------------------------------------

function makeLab(place, lab) {
  const hints = element("div", { className: "lab-hints" });
  const answer = element("div", { className: "lab-answer" });
  const hint = hintButton(lab, hints);
  const bench = makeBench({
    label: `Lab ${lab.id}, ${lab.title}`,
    text: kept(lab),
    original: lab.stub,
    verb: "Grade",
    work: (text, bench) => grade(lab, text, bench, place.dataset.only, hint),
    changed: (text) => keep(lab, text),
    buttons: [hint, button("Show the reference", () => confirmAnswer(lab, answer))],
  });
  const contract = element("a", { href: new URL(`../${lab.contract}`, HERE).href, textContent: "contract" });
  const head = element("p", { className: "lab-head" }, element("strong", {}, `Lab ${lab.id}: ${lab.title}`));
  head.append(` (${place.dataset.minutes ?? lab.minutes} minutes; what must hold is in its `, contract, ")");
  const onDisk = element("details", {}, element("summary", {}, "On your own machine"), ...place.childNodes);
  place.replaceChildren(head, ...Object.entries(lab.evidence).map(foldOfCase), bench.root, hints, answer, onDisk);
}

/** What the engine of a debugging lab left behind, as `lab evidence` prints it. */
function foldOfCase([name, text]) {
  const printed = element("pre", { tabIndex: 0, role: "region", "aria-label": `Evidence of case ${name}` }, text);
  return element("details", { className: "lab-evidence" }, element("summary", {}, `Evidence of case ${name}`), printed);
}

async function grade(lab, text, bench, only, hint) {
  let test = "";
  bench.whenStopped = () => `Stopped${test && ` in ${test}: did your code come back?`}`;
  const told = (note) => {
    if (note.ready) bench.say("Grading ...");
    if (note.test) test = note.test;
    if (note.text) bench.print(note.text);
  };
  const question = { what: "lab", id: lab.id, text, only };
  const results = await ask(question, told).catch((error) => {
    if (!(error instanceof Late)) throw error;
    bench.say(`${test} did not come back. Python starts again, to grade what came before it ...`);
    bench.output.replaceChildren();
    return ask({ ...question, hung: test }, told);
  });
  const red = results.filter((result) => result.outcome !== "passed");
  const first = red.find(({ outcome }) => outcome === "hang") ?? red[0];
  if (first) {
    const title = element("p", { className: "lab-first" }, first.test || "Not graded");
    const [idea, ...state] = first.message.split("\n\n"); // sentences, then what is aligned
    const why = element("div", { className: "lab-why" }, title, element("p", { className: "lab-says" }, ...linked(idea, hint)));
    if (state.length) {
      const message = element("pre", { tabIndex: 0, role: "region", "aria-label": "Why it is red" });
      message.append(...linked(state.join("\n\n"), hint));
      why.append(message);
    }
    bench.output.append(why);
    why.scrollIntoView({ block: "nearest" }); // the editor, which gets smaller, stays in sight above it
  }
  const numPassed = results.length - red.length;
  if (results[0].test) {
    bench.output.append(...byIdea(results).map(foldOf));
    if (!only) remember(countOf(lab.id), `${numPassed} of ${results.length}`);
  }
  if (red.length) return `${numPassed} of ${results.length} green.`;
  const next = only ? { title: `${lab.id} ${lab.title}`, section: lab.section } : lab.next;
  if (next) bench.output.append(linkToNext(next));
  return `Done: all ${results.length} are green.`;
}

/** A message whose hints and sections lead there. */
function linked(message, hint) {
  return message.split(PLACE).map((part) => {
    if (!PLACE.test(part)) return part;
    if (!part.startsWith("docs/")) return button("a hint", () => hint.click(), { className: "lab-link" });
    const href = new URL(part.replace(/^docs\//, "../").replace(".md", ".html"), HERE).href;
    const section = part.split("#")[1];
    return element("a", { href, textContent: section ? `the section ${section.replaceAll("-", " ")}` : "the chapter" });
  });
}

/** The results of each idea that the lab is about; ideas with a red test come first. */
function byIdea(results) {
  const ideas = new Map();
  for (const result of results) ideas.set(result.concept, [...(ideas.get(result.concept) ?? []), result]);
  const isGreen = ([, tests]) => tests.every(({ outcome }) => outcome === "passed");
  return [...ideas].sort((a, b) => isGreen(a) - isGreen(b));
}

/** One line for an idea; it opens to the tests. */
function foldOf([concept, tests]) {
  const numPassed = tests.filter(({ outcome }) => outcome === "passed").length;
  const outcome = numPassed === tests.length ? "passed" : "failed";
  const head = element("summary", { className: `lab-${outcome}` }, markOf(outcome), concept || "other tests");
  head.append(` (${numPassed} of ${tests.length})`);
  const rows = tests.map(({ test, outcome }) => {
    const name = element("code", {}, test.replace(/^test_/, "").replaceAll("_", " "));
    return element("li", { className: `lab-${outcome}` }, markOf(outcome), name);
  });
  return element("details", { className: "lab-idea" }, head, element("ul", {}, ...rows));
}

function markOf(outcome) {
  const says = outcome === "passed" ? "passed: " : outcome === "todo" ? "not written yet: " : "failed: ";
  return element("span", { className: "lab-mark" }, MARKS[outcome] ?? "✗", hidden(says));
}

function linkToNext({ title, section }) {
  const link = element("a", { href: new URL(`../${section}`, HERE).href, textContent: title });
  return element("p", { className: "lab-next" }, "Next: ", link);
}

const hidden = (text) => element("span", { className: "only-heard" }, text);

// --- help ------------------------------------------------------------------------------------------------------------

function hintButton(lab, place) {
  place.setAttribute("aria-live", "polite");
  const more = button("", () => {
    const { title, html } = lab.hints[place.children.length];
    const text = element("div", { innerHTML: html }); // made from hints.md when the book was built
    place.append(element("div", { className: "lab-hint" }, element("p", {}, element("strong", {}, title)), text));
    place.lastChild.scrollIntoView({ block: "nearest" });
    name();
  });
  function name() {
    const next = place.children.length + 1;
    more.disabled = next > lab.hints.length;
    more.textContent = more.disabled ? "No more hints" : `Hint ${next} of ${lab.hints.length}`;
  }
  name();
  return more;
}

function confirmAnswer(lab, place) {
  const show = button("Give it away", () => {
    const editor = element("div", { className: "bench bench-editor" });
    const title = element("p", {}, element("strong", {}, "The reference"), " (to be read, not graded)");
    place.replaceChildren(title, editor);
    makeEditor(editor, { label: `The reference of lab ${lab.id}`, text: lab.reference, readOnly: true });
  });
  const hide = button("Go on without", () => place.replaceChildren());
  const warning = "This gives the answer away. The hints do not, and an hour of your own teaches more.";
  place.replaceChildren(element("div", { className: "lab-confirm", role: "alert" }, warning, show, hide));
  hide.focus();
}
