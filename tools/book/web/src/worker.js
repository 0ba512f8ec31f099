// Python in a worker: Pyodide, the sources of the engine and the grader as they are in the repository, labkit/web.py.
import { loadPyodide } from "./pyodide/pyodide.mjs";
import * as arrays from "./arrays.js";

const HERE = new URL(".", import.meta.url);
const FOLDER = "/book"; // where the repository's files are, for Python
const MOST_OUTPUT = 100_000; // characters of one run; a loop that prints must not drown the page
const CELL_SECONDS = 60;

let number = 0; // of the question that is being answered
let printed = 0;
const tell = (note) => postMessage({ number, note });

function print(line) {
  if (printed > MOST_OUTPUT) return;
  printed += line.length + 1;
  tell({ text: printed > MOST_OUTPUT ? "... (more was printed than is shown)\n" : line + "\n" });
}

async function start() {
  const sources = fetch(new URL("sources.json", HERE)).then((response) => response.json());
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
  return python.pyimport("labkit.web");
}

const ANSWERS = {
  cell: (web, { text }) => (tell({ seconds: CELL_SECONDS }), web.run_cell(text)),
  lab: (web, { id, text, only = "", hung = "" }) =>
    web.grade(id, text, only, hung, (test, seconds) => tell({ test, seconds })),
};

const started = start();

onmessage = async ({ data }) => {
  try {
    const web = await started;
    [number, printed] = [data.number, 0];
    tell({ ready: true });
    postMessage({ number, answer: JSON.parse(ANSWERS[data.what](web, data)) });
  } catch (error) {
    postMessage({ number: data.number, broken: String(error.message ?? error) }); // of Pyodide itself: it must go
  }
};
