// Cells: the code in a chapter, made to run. A trace is drawn, anything else is printed.
import "timeline";
import { makeBench } from "./bench.js";
import { element } from "./browser.js";
import { ask } from "./python.js";

export function upgrade(places) {
  for (const place of places) {
    const code = place.querySelector("code").textContent.replace(/\n$/, "");
    const label = `Python cell ${place.dataset.cell}`;
    const bench = makeBench({ label, text: code, original: code, verb: "Run", work: runCell });
    place.dataset.ready = "";
    place.replaceChildren(bench.root);
  }
}

async function runCell(text, bench) {
  let begin;
  const answer = await ask({ what: "cell", text }, (note) => {
    if (note.ready) {
      begin = performance.now();
      bench.say("Running ...");
    }
    if (note.text) bench.print(note.text);
  });
  if (answer.error) {
    bench.print(element("span", { className: "bench-error", textContent: answer.error }));
    return "It raised an error.";
  }
  if (answer.text !== undefined) bench.print(answer.text + "\n");
  if (answer.trace) draw(answer.trace, bench);
  return `Done in ${((performance.now() - begin) / 1000).toFixed(2)} s.`;
}

function draw(trace, bench) {
  const figure = document.createElement("kv-timeline");
  figure.setAttribute("caption", trace.caption ?? "What the scheduler did in your cell");
  try {
    figure.data = trace;
    bench.output.append(figure);
  } catch (error) {
    bench.print(`This has "steps", but it is no trace: ${error.message}\n`);
  }
}
