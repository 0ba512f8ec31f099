// What cells and labs have in common: an editor, a bar with Run, Stop and Reset, a line of status, and output below.
import { button, element } from "./browser.js";
import { makeEditor } from "./editor.js";
import { isReady, Lost, stop, Stopped } from "./python.js";

const KEYS = "Ctrl-Enter runs, Escape leaves the editor.";

/**
 * Make a bench. verb: the text of the button that runs; work(text, bench) does it and returns a sentence for the
 * status; original: the text that Reset brings back; buttons: further ones for the bar.
 */
export function makeBench({ label, text, original, verb, work, changed, buttons = [] }) {
  const status = element("span", { className: "bench-status", role: "status", textContent: KEYS });
  const place = element("div", { className: "bench-editor" });
  const output = element("div", { className: "bench-output" });
  const runs = button(verb, start, { className: "bench-run" });
  const stops = button("Stop", stop, { className: "bench-stop", hidden: true });
  const resets = button("Reset", reset, { className: "bench-reset" });
  const bar = element("div", { className: "bench-bar" }, runs, stops, resets, ...buttons, status);
  const root = element("div", { className: "bench", role: "group", "aria-label": label }, place, bar, output);
  const editor = makeEditor(place, { label, text, run: start, leave: () => runs.focus(), changed });
  const bench = { root, editor, output, print, say };
  let printed = null;
  let busy = false;

  function say(sentence) {
    status.textContent = sentence;
  }

  function print(line) {
    if (!printed) {
      printed = element("pre", { className: "bench-printed", tabIndex: 0, role: "region", "aria-label": "Output" });
      output.append(printed);
    }
    printed.append(line);
  }

  function reset() {
    editor.replace(original);
    say("As it was. Ctrl-Z in the editor brings your text back.");
  }

  async function start() {
    if (busy) return;
    setBusy(true);
    printed = null;
    output.replaceChildren();
    say(isReady() ? "Running ..." : "Loading Python, once for this page ...");
    try {
      say(await work(editor.text(), bench));
    } catch (error) {
      if (error instanceof Stopped) say(bench.whenStopped?.() ?? error.message);
      else say(error instanceof Lost ? error.message : `Python ended: ${error.message}`);
    }
    setBusy(false);
  }

  function setBusy(now) {
    busy = now;
    const had = document.activeElement;
    runs.disabled = resets.disabled = now;
    stops.hidden = !now;
    if (now && had === runs) stops.focus();
    if (!now && had === stops) runs.focus();
  }

  return bench;
}
