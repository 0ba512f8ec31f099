// One Python for the page, in a worker. It is loaded by the first question; stop() ends whatever runs.

export class Stopped extends Error {}
export class Late extends Stopped {}
export class Lost extends Error {} // a file that did not come; to ask again is to fetch it again

const LOST = "Python or the weights of the model did not come: the network, or the server. Try again.";

let worker = null;
let ready = false;
let number = 0;
let timer = 0; // of what runs
const questions = new Map(); // by number: what is asked and not answered yet

export const isReady = () => ready;

/**
 * Ask the worker, see its `ANSWERS`. told(note) hears of "ready", printed text and tests while it works. A note may say
 * in how many seconds the next one or the answer must come: without it Python is ended, and the question is Late.
 */
export function ask(question, told) {
  worker ??= start();
  return new Promise((resolve, reject) => {
    questions.set(++number, { resolve, reject, told });
    worker.postMessage({ ...question, number });
  });
}

/** End what runs, even a loop without an end: Python with it, which comes back at once for the next question. */
export function stop() {
  end(new Stopped("Stopped."));
  worker = start();
}

/** Let an answer of the engine end with the step that runs. */
export const halt = () => worker?.postMessage({ what: "halt" });

/** Why this browser cannot run Python; "" where it can. */
export function whyNot() {
  const missing = ["WebAssembly", "Worker"].filter((name) => !(name in globalThis));
  return missing.length ? `The engine cannot run in this browser, which lacks ${missing.join(" and ")}.` : "";
}

function allow(number, seconds) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    questions.get(number)?.reject(new Late(`Ended: it had not come back after ${seconds} seconds.`));
    stop();
  }, 1000 * seconds);
}

function start() {
  const made = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  made.onmessage = ({ data }) => {
    ready = true;
    const asked = questions.get(data.number);
    if (data.note?.seconds) allow(data.number, data.note.seconds);
    if (data.note) return asked?.told(data.note);
    clearTimeout(timer);
    if (data.broken) return end(data.lost ? new Lost(LOST) : new Error(data.broken));
    questions.delete(data.number);
    asked?.resolve(data.answer);
  };
  made.onerror = (event) => end(event.message ? new Error(event.message) : new Lost(LOST));
  return made;
}

function end(reason) {
  clearTimeout(timer);
  worker?.terminate();
  worker = null;
  ready = false;
  for (const asked of questions.values()) asked.reject(reason);
  questions.clear();
}
