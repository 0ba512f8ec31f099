// A chat with the bundled model: a question, the answer as it comes, and the timeline of the engine's steps. With the
// labs of a learner the engine has their parts in it, and what these decide is laid beside the reference.
import "timeline";
import { button, element, recall, textOf } from "./browser.js";
import { ask, halt, isReady, Late, Lost, stop, Stopped, whyNot } from "./python.js";

const FIRST = "What is a KV block?";
let number = 0; // of the conversations in this page

export function upgrade(places) {
  for (const place of places) {
    place.dataset.ready = "";
    const reason = whyNot();
    if (reason) place.prepend(element("p", { className: "chat-why-not", role: "status", textContent: reason }));
    else place.replaceChildren(makeChat((place.dataset.labs ?? "").split(" ").filter(Boolean), place.dataset.label));
  }
}

/** labs: whose texts, as this browser keeps them, are parts of the engine. With them each question is a new one. */
function makeChat(labs, label = "Ask the engine") {
  const id = `chat-question-${++number}`;
  const field = element("input", { id, type: "text", maxLength: 200, value: FIRST, autocomplete: "off" });
  const asks = element("button", { type: "submit", textContent: "Ask", className: "bench-run" });
  const stops = button("Stop", () => (streaming ? halt : stop)(), { className: "bench-stop", hidden: true });
  const begins = button("New conversation", begin, { hidden: true });
  const status = element("p", { className: "bench-status", role: "status" });
  const log = element("div", { className: "chat-log", role: "log", tabIndex: 0, "aria-label": "Conversation" });
  const title = element("label", { for: id }, "Your question");
  const bar = element("form", { className: "bench-bar", onsubmit: start }, title, field, asks, stops, begins, status);
  const steps = element("div", { className: "chat-steps" });
  const beside = element("div", { className: "chat-beside", "aria-live": "polite" });
  const talk = element("div", { className: "chat-talk" }, log, bar);
  let [messages, talks, busy, streaming, figure] = [[], 0, false, false, null];

  function begin() {
    for (const each of [log, steps, beside]) each.replaceChildren();
    [messages, figure] = [[], null];
    begins.hidden = true;
    talks++;
    say("");
    field.focus();
  }

  const say = (sentence) => (status.textContent = sentence);

  function print(whose, text) {
    const words = element("span", {}, text);
    log.append(element("p", {}, element("strong", {}, whose), " ", words));
    log.scrollTop = log.scrollHeight;
    return words;
  }

  async function start(event) {
    event.preventDefault();
    const content = field.value.trim();
    if (busy || !content) return;
    setBusy(true);
    if (labs.length) begin();
    messages.push({ role: "user", content });
    print("You:", content);
    say(isReady() ? "Asking ..." : "Loading Python and the model, once for this page ...");
    const texts = Object.fromEntries(labs.map((lab) => [lab, recall(textOf(lab)) ?? ""]));
    try {
      const said = await answer({ talk: `${id} ${talks}`, texts });
      if (labs.length && said) await differ({ talk: `${id} ${talks}`, texts }, said);
    } catch (error) {
      const why = error instanceof Late && labs.length ? `${error.message} One of your parts loops.` : error.message;
      say(error instanceof Stopped || error instanceof Lost ? why : `The engine cannot run here: ${error.message}`);
    }
    // A question without an answer is none: it may be asked again.
    if (messages.at(-1).role === "user") messages.pop();
    else if (!labs.length) field.value = "";
    begins.hidden = Boolean(labs.length);
    setBusy(false);
  }

  /** Ask, and show the answer as it comes. Resolves to what to say of it; to nothing if there is none. */
  async function answer(question) {
    const clicked = performance.now();
    let [words, text, first, last, numTokens, error] = [null, "", 0, 0, 0, ""];
    const told = (note) => {
      if (note.whose) print("The engine:", note.whose);
      if (note.text) print("Printed:", note.text);
      if (note.trace) draw(note.trace);
      if (note.error) error = note.error;
      if (note.said === undefined) return;
      if (!words) {
        [words, first, streaming] = [print("Answer:", ""), performance.now(), true];
        say("Answering ...");
      }
      [text, numTokens, last] = [note.said, note.num_tokens, performance.now()];
      words.textContent = text.trim();
      log.scrollTop = log.scrollHeight;
    };
    log.ariaBusy = "true"; // an answer is read out when it is there, and not word by word
    try {
      const { trace, halted } = await ask({ what: "chat", ...question, messages }, told);
      if (trace.steps.length) draw(trace);
      if (error) {
        print("The engine stopped:", error);
        return say(labs.length ? "No answer." : "No answer. A new conversation has room again.");
      }
      messages.push({ role: "assistant", content: text.trim() });
      const rate = Math.round((1000 * (numTokens - 1)) / (last - first));
      const wait = `after ${((first - clicked) / 1000).toFixed(1)} s.`;
      const said = numTokens > 1 ? `${numTokens} tokens, ${rate} a second; the first one ${wait}` : `1 token, ${wait}`;
      say(halted ? `Stopped. ${said}` : said);
      return halted ? "" : said;
    } finally {
      streaming = false;
      log.ariaBusy = "false";
    }
  }

  function draw(trace) {
    figure ??= steps.appendChild(element("kv-timeline"));
    figure.setAttribute("caption", labs.length ? "The steps of your question and of two others" : "The steps");
    figure.setAttribute("step", trace.steps.at(-1).step);
    figure.data = trace;
  }

  /** Lay what the learner's parts do beside the reference. */
  async function differ(question, said) {
    say(`${said} Laid beside the reference ...`);
    const found = await ask({ what: "differ", ...question }, () => {});
    say(said);
    beside.replaceChildren(element("p", {}, found.said));
    if (!found.state) return;
    const state = element("pre", { tabIndex: 0, role: "region", "aria-label": "Yours and the reference" }, found.state);
    beside.append(state);
    for (const [whose, trace] of found.figures ?? []) {
      const attributes = { caption: whose, step: found.step, sync: id };
      const shown = beside.appendChild(element("kv-timeline"));
      for (const [name, value] of Object.entries(attributes)) shown.setAttribute(name, value);
      shown.data = trace;
    }
  }

  function setBusy(now) {
    busy = now;
    asks.disabled = begins.disabled = now;
    stops.hidden = !now;
    if (now) stops.focus();
    else field.focus();
  }

  return element("section", { className: "bench chat", "aria-label": label }, talk, steps, beside);
}
