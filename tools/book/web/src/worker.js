// Python in a worker: Pyodide, the sources of the engine and the grader as they are in the repository, labkit/web/book.py.
import { loadPyodide } from "./pyodide/pyodide.mjs";
import * as arrays from "./arrays.js";

const HERE = new URL(".", import.meta.url);
const FOLDER = "/book"; // where the repository's files are, for Python
const MOST_OUTPUT = 100_000; // characters of one run; a loop that prints must not drown the page
const CELL_SECONDS = 60;
const STEP_SECONDS = 10; // of an engine, or for a scenario

// How browsers, and the lazy files of Pyodide, say that something was not fetched.
const NO_FILE = /Failed to (fetch|load|execute 'send')|NetworkError|Load failed|Couldn't load|dynamically imported/;

let number = 0; // of the question that is being answered
let printed = 0;
let halted = false;
let chat = null; // the conversation, and what it was made for; any other question ends it
let turn = Promise.resolve(); // questions take turns, while an answer lets messages in
const tell = (note) => postMessage({ number, note });

function print(line) {
  if (printed > MOST_OUTPUT) return;
  printed += line.length + 1;
  tell({ text: printed > MOST_OUTPUT ? "... (more was printed than is shown)\n" : line + "\n" });
}

async function start() {
  const sources = fetch(new URL("sources.json", HERE)).then((response) => {
    if (!response.ok) throw new Error(`Failed to fetch ${response.url}: ${response.status}`);
    return response.json();
  });
  const python = await loadPyodide({ indexURL: new URL("pyodide/", HERE).href });
  for (const [path, text] of Object.entries(await sources)) {
    const file = `${FOLDER}/${path}`;
    const folder = file.slice(0, file.lastIndexOf("/"));
    python.FS.mkdirTree(folder);
    if (text !== null) python.FS.writeFile(file, text);
    else python.FS.createLazyFile(folder, file.slice(folder.length + 1), new URL(`files/${path}`, HERE).href, true, false);
  }
  python.registerJsModule("arrays", arrays);
  python.setStdout({ batched: print });
  python.setStderr({ batched: print });
  python.runPython(`import sys; sys.path.insert(0, "${FOLDER}")`);
  return python.pyimport("labkit.web.book");
}

const ANSWERS = {
  cell: (web, { text }) => (tell({ seconds: CELL_SECONDS }), web.run_cell(text)),
  lab: (web, { id, text, only = "", hung = "" }) =>
    web.grade(id, text, only, hung, (test, seconds) => tell({ test, seconds })),
  chat: async (web, { messages, ...about }) => {
    const conversation = converse(web, about);
    for (const each of conversation.answer(JSON.stringify(messages))) {
      const note = JSON.parse(each);
      tell({ seconds: STEP_SECONDS, ...note });
      if (note.error) chat = null; // its engine has stopped
      await new Promise((resolve) => setTimeout(resolve)); // a message may say that it is enough
      if (halted) break;
    }
    return `{"halted": ${halted}, "trace": ${conversation.trace()}}`;
  },
  differ: (web, about) => converse(web, about).differ(() => tell({ seconds: STEP_SECONDS })),
};

/** The conversation that goes on, or a new one. about: which it is, and the texts of the learner's labs. */
function converse(web, about) {
  const key = JSON.stringify(about);
  tell({ seconds: CELL_SECONDS });
  if (chat?.key !== key) {
    const conversation = web.converse(JSON.stringify(about.texts));
    if (Object.keys(about.texts).length) tell({ whose: conversation.whose() });
    chat = { key, conversation };
  }
  return chat.conversation;
}

const started = start();

onmessage = ({ data }) => {
  if (data.what === "halt") halted = true;
  else turn = turn.then(() => answer(data));
};

async function answer({ what, number: asked, ...data }) {
  try {
    const web = await started;
    [number, printed, halted] = [asked, 0, false];
    tell({ ready: true });
    if (what !== "chat" && what !== "differ") chat = null;
    postMessage({ number, answer: JSON.parse(await ANSWERS[what](web, data)) });
  } catch (error) {
    const broken = String(error.message ?? error);
    postMessage({ number: asked, broken, lost: NO_FILE.test(broken) }); // of Pyodide itself: it must go
  }
}
