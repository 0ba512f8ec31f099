// The step-through figure of a trace (trace.schema.json): <kv-timeline src="trace.json" caption="..."></kv-timeline>
//
// Requests downwards, steps to the right; at the chosen step who holds which KV block, who runs and who waits. The
// book, `mini-vllm trace --html` and `lab diff --html` draw with it; timeline.py draws the same as text.
//
// Attributes: src (an address, or #id of a JSON script in the page; the property `data` takes a trace, too), caption,
// step (the number of the step to open at), sync (figures with the same value move together).

/** What a cell can say, in the words of timeline.py. */
export const MARKS = {
  prefill: "prefill chunk",
  hit: "chunk after a prefix hit",
  recompute: "chunk computed again",
  swapped: "back from main memory",
  decode: "decode, one token",
  accepted: "drafts, all accepted",
  partly: "drafts, some accepted",
  rejected: "drafts, all rejected",
  idle: "running, not in this step",
  waiting: "waiting",
  loading: "waiting for a load",
  preempted: "preempted",
};
const CHUNKS = ["prefill", "hit", "recompute"], VERIFIED = ["accepted", "partly", "rejected"];

// --- what a trace says ----------------------------------------------------------------------------------------------

/**
 * Follow a trace through its steps: one frame per step, as things stand while it runs, i.e. after schedule().
 *
 * A frame has cells (request id -> what it does), tables (request id -> block ids), cached (the blocks that the prefix
 * cache can find), free (the free queue, next to be taken first), numFree, running and waiting. The trace says who got
 * which blocks; when they come back, and where in the queue they go, follows from the rules of kv_cache.py and
 * block_pool.py. Of a large pool, blocks that are never used are only counted. One thing a trace does not tell: what a
 * victim took in the very step that preempts it (policy priority); cached may name such a block too many.
 */
export function replay(trace) {
  const { block_size: size, num_blocks: numBlocks, enable_prefix_caching: caching = true } = trace.config;
  const prompts = new Map(trace.requests.map((request) => [request.id, request.prompt.length]));
  const known = new Map(prompts); // tokens of prompt and output so far
  const computed = new Map(); // of the running requests
  const furthest = new Map(); // how far a request has ever been, before a preemption, too
  const tables = new Map(), refs = new Map(), cached = new Set();
  const numFollowed = Math.min(numBlocks - 1, Math.max(highestBlock(trace), 1000));
  let running = [], free = Array.from({ length: numFollowed }, (_, i) => i + 1);

  /** Extend a block table. The first numHits blocks come from the prefix cache, the others lose what they held. */
  function take(id, blocks, numHits) {
    blocks.forEach((block) => refs.set(block, (refs.get(block) ?? 0) + 1));
    blocks.slice(numHits).forEach((block) => cached.delete(block));
    free = free.filter((block) => !blocks.includes(block));
    tables.set(id, [...(tables.get(id) ?? []), ...blocks]);
  }
  /** Put another table in the place of a request's: it forked, or a shared block in it was copied. */
  function replace(id, table) {
    const old = tables.get(id) ?? [];
    tables.delete(id);
    table.filter((block) => !refs.get(block)).forEach((block) => cached.delete(block));
    take(id, table, table.length);
    for (const block of old) refs.set(block, refs.get(block) - 1);
    free = [...old.filter((block) => !refs.get(block)), ...free];
  }
  /** Take a table back; of a request that comes again, what was published and never written is withdrawn. */
  function release(id, comesAgain) {
    const table = tables.get(id) ?? [], front = [], back = [];
    for (const block of [...table].reverse()) {
      refs.set(block, refs.get(block) - 1);
      if (refs.get(block) === 0) (cached.has(block) ? back : front).push(block);
    }
    free = [...front, ...free, ...back];
    if (comesAgain) table.slice(Math.floor(computed.get(id) / size)).forEach((block) => cached.delete(block));
    tables.delete(id);
    computed.delete(id);
    running = running.filter((other) => other !== id);
    return { gives: table.length, shared: table.length - front.length - back.length };
  }

  return trace.steps.map((record) => {
    const { sched, blocks = {}, preempted = [], waiting = [], loading = [] } = record, cells = new Map();
    const swappedIn = new Set((record.swapped_in ?? []).map(([, block]) => block));
    const admitted = new Map([...(record.new ?? []), ...(record.resumed ?? [])]);
    const note = (id, facts) => cells.set(id, { mark: "", ...cells.get(id), ...facts });
    const end = (id, reason) => note(id, { end: reason, ...release(id, false) });

    for (const id of record.aborted_before ?? []) end(id, "abort");
    const isGone = (id) => record.running && !record.running.includes(id) && !preempted.includes(id);
    running.filter(isGone).forEach((id) => release(id, false)); // an engine drops a request without a record
    for (const id of preempted) note(id, { mark: "preempted", ...release(id, true) });
    for (const [id, n] of sched) {
      const hit = admitted.get(id) ?? 0;
      if (admitted.has(id)) {
        running = [...running, id];
        computed.set(id, hit);
      }
      const start = computed.get(id), again = Math.max(Math.min(furthest.get(id) ?? 0, start + n) - start, 0);
      const firstSwapped = (blocks[id] ?? []).findIndex((block) => swappedIn.has(block)), isBack = firstSwapped >= 0;
      const { length: numDrafts = 0 } = record.spec?.[id] ?? {};
      const accepted = Math.max(Math.min(numDrafts, (record.sampled?.[id]?.length ?? 0) - 1), 0);
      const verified = !numDrafts ? "decode" : !accepted ? "rejected" : accepted < numDrafts ? "partly" : "accepted";
      const kind = hit ? "hit" : again ? "recompute" : start < prompts.get(id) ? "prefill" : verified;
      const mark = isBack ? "swapped" : kind, numHits = isBack ? firstSwapped : hit / size;
      note(id, { mark, n, hit, again, numDrafts, accepted, isPrompt: start + n <= prompts.get(id) });
      furthest.set(id, Math.max(furthest.get(id) ?? 0, start + n - numDrafts + accepted));
      if (record.tables?.[id]) replace(id, record.tables[id]);
      else if (blocks[id]) take(id, blocks[id], numHits);
      const end = Math.floor(Math.min(start + n, known.get(id)) / size); // drafts are not published
      const filled = tables.get(id).slice(isBack ? numHits : Math.floor(start / size), end);
      if (caching) filled.forEach((block) => cached.add(block)); // from now on, before they are computed
    }
    running = record.running ?? running;
    for (const id of loading) if (!cells.has(id)) note(id, { mark: "loading" });
    for (const id of waiting) if (!cells.has(id)) note(id, { mark: "waiting" });
    for (const id of record.running ?? running) if (!cells.has(id)) note(id, { mark: "idle" });
    for (const id of running) note(id, { start: computed.get(id), known: known.get(id) });
    const { step, failed } = record, numFree = free.length + numBlocks - 1 - numFollowed;
    const held = { tables: new Map(tables), cached: new Set(cached), free, numFree };
    const frame = { step, failed, cells, running, waiting, ...held };

    for (const [id, n] of record.failed ? [] : sched) {
      const { numDrafts, accepted } = cells.get(id), numOutputs = trace.outputs?.[id]?.length ?? Infinity;
      const start = computed.get(id), stop = start + n - numDrafts + accepted;
      computed.set(id, numDrafts ? Math.min(stop, prompts.get(id) + numOutputs - 1) : stop); // what is behind the last token is dropped
      if (stop >= known.get(id)) known.set(id, stop + 1); // caught up: a token is sampled
      for (const fork of record.forks?.[id] ?? []) {
        computed.set(fork, computed.get(id));
        known.set(fork, known.get(fork) + 1);
        furthest.set(fork, computed.get(id));
      }
      if (!caching || !numDrafts || record.aborted_during?.includes(id)) continue;
      const filled = tables.get(id).slice(Math.floor(start / size), Math.floor(computed.get(id) / size));
      filled.forEach((block) => cached.add(block)); // accepted drafts are published when they are verified
    }
    for (const id of record.aborted_during ?? []) end(id, "abort");
    for (const [id, reason] of record.finished ?? []) end(id, reason ?? "stop");
    if (record.failed) [...sched].reverse().forEach(([id]) => note(id, release(id, true)));
    return frame;
  });
}

function highestBlock(trace) {
  const ids = trace.steps.flatMap((record) => Object.values(record.blocks ?? {}).flat());
  return ids.reduce((highest, id) => Math.max(highest, id), 0);
}

const budgetUsed = (frame) => [...frame.cells.values()].reduce((sum, cell) => sum + (cell.n ?? 0), 0);
const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** What happens in a step, in a sentence. previous: the frame before it, if there is one. */
export function describe(frame, previous) {
  const cells = [...frame.cells].map(([id, cell]) => ({ id, ...cell })), parts = [];
  const marked = (...marks) => cells.filter((cell) => marks.includes(cell.mark));

  /** A part for each request, or one for all of them if they are `together` or more. */
  function say(some, one, all, together = 5) {
    const ids = some.map((cell) => cell.id), most = ids.slice(0, -1).join(", ");
    const names = ids.length > 4 ? `${ids.length} requests` : `${most} and ${ids.at(-1)}`;
    if (some.length >= together) return parts.push([names, all]);
    for (const cell of some) {
      const said = one(cell), own = parts.find(([who]) => who === cell.id); // "a decodes 1 token, finishes and ..."
      if (own) own[1] += said.includes(" and ") ? `, ${said}` : ` and ${said}`;
      else parts.push([cell.id, said]);
    }
  }
  function chunk({ n, hit, again, isPrompt }) {
    const recomputed = again === n ? (hit ? ", all of them again" : " again") : again ? `, ${again} of them again` : "";
    const found = hit ? ` after a prefix hit of ${hit}` : "";
    return `computes ${counted(n, isPrompt ? "prompt token" : "token")}${found}${recomputed}`;
  }
  const returns = ({ gives, shared }) => gives
    ? ` and gives back ${counted(gives, "block")}${shared ? `, ${shared} of them still held by others` : ""}` : "";

  say(marked("decode"), () => "decodes 1 token", "decode 1 token each", 2);
  const verify = ({ numDrafts, accepted }) => `verifies ${counted(numDrafts, "draft")}, of which ${accepted} ` +
    `${accepted === 1 ? "is" : "are"} right, and gets ${counted(accepted + 1, "token")}`;
  say(marked(...VERIFIED), verify, "verify drafts");
  say(marked(...CHUNKS), chunk, "compute chunks");
  const back = ({ n, hit }) => `comes back from main memory with ${hit} tokens and computes ${n}`;
  say(marked("swapped"), back, "come back from main memory");
  say(marked("idle"), () => "gets no tokens", "get no tokens", 2);
  say(marked("preempted"), (cell) => `is preempted${returns(cell)}`, "are preempted");
  const before = ({ id }) => previous?.cells.get(id)?.mark;
  say(marked("waiting").filter((cell) => !before(cell)), () => "arrives and waits", "arrive and wait", 2);
  say(marked("loading").filter((cell) => before(cell) !== "loading"), () => "waits for a load", "wait for loads", 2);
  const ended = cells.filter((cell) => cell.end);
  say(ended, (cell) => (cell.end === "abort" ? "is aborted" : `finishes (${cell.end})`) + returns(cell), "end");
  if (frame.failed) parts.push(["the model", "raised, so the step is undone and its requests are preempted"]);
  return `Step ${frame.step}: ${parts.map((part) => part.join(" ")).join("; ") || "no request is scheduled"}.`;
}

// --- how it looks ---------------------------------------------------------------------------------------------------

/** What stands in a cell, beside the tokens of a chunk or the accepted drafts; the style sheet draws the other marks. */
const SIGNS = {
  hit: "◆", recompute: "↺", swapped: "◀", loading: "◁", preempted: "×", accepted: "●", partly: "◐", rejected: "○",
};
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
const CSS = `
:host { display: block; margin: 1.2em 0; font-size: 14px; line-height: 1.45 }
figure {
  --bg: light-dark(#fff, #1b1e26); --ink: light-dark(#132433, #e9ebf1); --soft: light-dark(#4c5866, #b4b9c5);
  --line: light-dark(#c7cfd6, #474c59); --on: light-dark(#fff, #14161c); --focus: light-dark(#0b6a85, #5fc7e4);
  --prefill: light-dark(#0b6a85, #5fc7e4); --hit: light-dark(#1b6e3c, #7fd19b); --idle: light-dark(#9a4f00, #ffb866);
  --recompute: light-dark(#96298b, #f0a0e6); --decode: light-dark(#2a86a3, #a3d9e8);
  --waiting: light-dark(#666b75, #a9aeb9); --preempted: light-dark(#b3261e, #ff8a80);
  --gauge: light-dark(#6b7c8c, #8b9aa8);
  margin: 0; padding: 14px; border: 1px solid var(--line); border-radius: 8px; background: var(--bg);
  color: var(--ink) }
figcaption, .head { font-weight: 600; margin: 0 0 6px }
.head { font-size: 13px; &:not(:first-child) { margin-top: 12px } }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; border-radius: 4px }
ul { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 0 0 8px; padding: 0; list-style: none; font-size: 12.5px }
li { display: flex; align-items: center; gap: 5px; & .cell { --cell: 20px; font-family: ${MONO} } }

.scroll { overflow: auto; max-height: 420px; container-type: inline-size }
.sheet { position: relative; width: max-content; font: 12px/24px ${MONO}; cursor: pointer;
  --label: min(var(--longest) * 1ch + 18px, 170px, 34cqw);
  --cell: clamp(var(--widest) * 1ch + 8px, (100cqw - var(--label) - 1px) / var(--steps), 44px) }
.row { display: flex; height: 24px; width: calc(var(--label) + var(--steps) * var(--cell)); content-visibility: auto }
.label { position: sticky; left: 0; z-index: 1; box-sizing: border-box; width: var(--label); padding: 0 6px 0 11px;
  background: linear-gradient(var(--fill, #0000) 0 0) 0 4px / 5px 16px no-repeat var(--bg); font-weight: 400;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.top, .gauge { position: sticky; top: 0; z-index: 2; padding-right: 2px; background: var(--bg); color: var(--soft) }
.gauge { top: auto; bottom: 0; &.first { bottom: 24px; border-top: 1px solid var(--line) } }
svg { width: calc(var(--steps) * var(--cell)); height: 18px; margin-top: 6px; fill: var(--gauge) }
.tick { width: calc(var(--n) * var(--cell)); text-indent: calc((var(--cell) - 1ch * var(--digits)) / 2) }
.cursor { position: absolute; top: 0; bottom: 0; left: calc(var(--label) + var(--i) * var(--cell)); width: var(--cell);
  box-shadow: -1px 0 var(--ink), 1px 0 var(--ink), inset 1px 0 var(--ink), inset -1px 0 var(--ink);
  pointer-events: none }

.cell { position: relative; width: calc(var(--n, 1) * var(--cell)); height: 24px; box-sizing: border-box;
  padding: 0 calc((var(--cell) - 1ch * var(--digits, 1)) / 2); font: 12px/24px ${MONO}; text-align-last: justify;
  --w: 10px; --h: 10px; --from: calc(50% - var(--w) / 2); --to: calc(50% + var(--w) / 2);
  background: linear-gradient(90deg, #0000 var(--from), var(--mark, #0000) 0 var(--to), #0000 0)
  0 50% / var(--cell) var(--h) repeat-x }
.decode { --mark: var(--decode) }
.waiting { --mark: var(--waiting); --w: 4px; --h: 4px }
.idle { --mark: var(--idle); --h: 2px }
.prefill { --mark: var(--prefill) }
.hit, .swapped { --mark: var(--hit) }
.recompute { --mark: var(--recompute) }
.prefill, .hit, .recompute, .swapped { --w: calc(var(--cell) - 2px); --h: 20px; color: var(--on) }
.accepted, .loading { color: var(--hit) }
.partly { color: var(--decode) }
.rejected { color: var(--preempted) }
.preempted { color: var(--preempted); -webkit-text-stroke: 0.4px;
  scale: 1.7 /* no larger font: 1ch, and with it --cell, would be larger, too */ }
.finished::after, .aborted::after { content: ""; position: absolute; right: 0; top: 1px; width: 9px; height: 9px;
  background: linear-gradient(to top right, #0000 50%, var(--ink) 0) }
.aborted::after { background: linear-gradient(to top right, #0000 45%, var(--ink) 0 60%, #0000 0);
  border: solid var(--ink); border-width: 1.5px 1.5px 0 0; box-sizing: border-box }

.controls { display: flex; gap: 8px; align-items: center; margin: 10px 0 4px }
button { min-width: 36px; min-height: 32px; border: 1px solid var(--soft); border-radius: 6px; background: none;
  font: inherit; color: inherit; &:hover { background: var(--line) } }
input { flex: 1; min-width: 60px; height: 28px; margin: 0; accent-color: var(--decode) }
output { font-variant-numeric: tabular-nums; white-space: nowrap }
.say { margin: 6px 0 12px; min-height: 2.9em }

.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 12px 24px }
.blocks { display: grid; grid-template-columns: repeat(auto-fill, 44px); gap: 3px; font: 11px/15px ${MONO} }
.block { position: relative; height: 36px; border: 1px solid var(--soft); border-radius: 3px; background: var(--fill);
  text-align: center; overflow: hidden; & i { display: block; font-style: normal; height: 15px } }
.held { color: var(--on) }
.free { border-style: dashed; color: var(--soft) }
.shared { background: var(--fill) 0 0 / 100% 5px no-repeat; & i { padding-top: 3px } }
.cached::after { content: ""; position: absolute; inset: auto 4px 1px; height: 3px; background: currentcolor }
.many { grid-template-columns: repeat(auto-fill, 27px); & .block { height: 22px; line-height: 18px } }
.many i { display: none }
.tiny { grid-template-columns: repeat(auto-fill, 13px) }
.tiny .block { height: 11px; border-radius: 0; border-style: solid; font-size: 0 }
.tiny .cached::after { inset: auto 2px 1px; height: 2px }
.note, .sideways { margin: 6px 0 0; font-size: 12.5px; color: var(--soft); overflow-wrap: anywhere }
.bar { display: flex; height: 12px; border: 1px solid var(--soft); border-radius: 4px; overflow: hidden }
.bar i { background: var(--fill); box-sizing: border-box; & + i { border-left: 1px solid var(--bg) } }
.rows { max-height: 240px; overflow: auto }
table { border-collapse: collapse; width: 100%; font-size: 13px }
td, th { padding: 2px 10px 2px 0; vertical-align: top; text-align: left; font-weight: 400 }
th { color: var(--soft) }
td { font: 12px/1.6 ${MONO} }
.queue { display: flex; flex-wrap: wrap; gap: 4px 6px }
.chip { background: var(--fill); color: var(--on); border-radius: 4px; padding: 0 6px; font: 12px/1.6 ${MONO} }
@media print { .controls, .sideways { display: none } .scroll, .rows { max-height: none } }`;
const BODY = `<style>${CSS}</style><figure>
<figcaption></figcaption><ul></ul>
<div class="scroll" tabindex="0" role="group" aria-label="Requests by steps"><div class="sheet" role="img"
  aria-label="What every request does in every step. The slider chooses a step; the sentence below says what happens."
  ></div></div>
<p class="sideways" hidden>The figure scrolls sideways →</p>
<div class="controls"><button class="play" aria-label="Play"><span aria-hidden="true">▶</span></button>
  <button class="back" aria-label="One step back"><span aria-hidden="true">‹</span></button>
  <input type="range" min="0" aria-label="Step">
  <button class="next" aria-label="One step on"><span aria-hidden="true">›</span></button><output></output></div>
<p class="say" aria-live="polite"></p>
<div class="panels">
  <div><p class="head usage"></p><div class="blocks" role="img"
    aria-label="Who holds which block; the block tables of the running requests say the same."></div>
    <p class="note"></p></div>
  <div><p class="head budget"></p><div class="bar"></div>
    <p class="head">Running</p><div class="rows" tabindex="0" role="group" aria-label="Running requests"></div>
    <p class="head">Waiting</p><div class="queue"></div></div>
</div></figure>`;

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const classOf = ({ mark, end }) => `cell ${mark}${end ? (end === "abort" ? " aborted" : " finished") : ""}`;

/** A request's row: equal cells beside each other are one element, so that 64 x 500 cells are a few hundred. */
function runsOf(id, frames) {
  const runs = [];
  for (const { step, cells } of frames) {
    const { mark = "", n, accepted, end } = cells.get(id) ?? {}, last = runs.at(-1);
    const count = CHUNKS.includes(mark) || mark === "swapped" ? n : VERIFIED.includes(mark) ? accepted : "";
    const text = (SIGNS[mark] ?? "") + count;
    const joins = last?.mark === mark && last.text === text && !last.end;
    if (joins) Object.assign(last, { end, to: step, length: last.length + 1 });
    else runs.push({ mark, text, end, from: step, to: step, length: 1 });
  }
  return runs.map((run) => {
    const { mark, text, from, to, length } = run, when = from === to ? `step ${from}` : `steps ${from} to ${to}`;
    const title = mark ? ` title="${escape(id)}, ${when}: ${MARKS[mark]}"` : "";
    const words = text && escape(Array(length).fill(text).join(" ")); // a word in each cell, by the style sheet
    return `<b class="${classOf(run)}" style="--n:${length};--digits:${text.length}"${title}>${words}</b>`;
  }).join("");
}

/** Amounts, one per step, as bars up to the largest; a bar that is not 0 can be seen. */
function gauge(name, amounts, more = "") {
  const most = Math.max(1, ...amounts), height = (amount) => (amount && Math.max(amount / most, 0.15)).toFixed(3);
  const bars = amounts.map((amount, i) => `M${i + 0.06} 1V${1 - height(amount)}h.88V1z`).join("");
  const svg = `<svg viewBox="0 0 ${amounts.length} 1" preserveAspectRatio="none"><path d="${bars}"/></svg>`;
  return `<div class="row gauge ${more}"><b class="label">≤ ${most} ${name}</b>${svg}</div>`;
}

// --- the element ----------------------------------------------------------------------------------------------------

class KVTimeline extends (globalThis.HTMLElement ?? Object) {
  #trace;
  #frames = [];
  #index = 0; // of the chosen frame
  #timer = 0;

  connectedCallback() {
    if (!this.shadowRoot) this.attachShadow({ mode: "open" });
    if (this.#trace) this.#build();
    else if (this.hasAttribute("src")) this.#load(this.getAttribute("src"));
  }

  disconnectedCallback() { this.#play(false); }

  async #load(src) {
    try {
      if (src.startsWith("#")) this.data = JSON.parse(document.getElementById(src.slice(1)).textContent);
      else {
        const answer = await fetch(new URL(src, document.baseURI));
        if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
        this.data = await answer.json();
      }
      this.dispatchEvent(new CustomEvent("drawn"));
    } catch (error) {
      this.shadowRoot.innerHTML = `<p>The figure cannot be drawn: ${escape(error.message)}</p>`;
      this.dispatchEvent(new CustomEvent("failed"));
    }
  }

  get data() { return this.#trace; }
  set data(trace) {
    this.#play(false);
    this.#frames = replay(trace);
    this.#trace = trace;
    this.#index = this.#find(this.getAttribute("step") ?? 0);
    if (this.isConnected) this.#build();
  }

  /** The number of the chosen step. Setting it goes to the last step that is not after it. */
  get step() { return this.#frames[this.#index]?.step; }
  set step(number) { this.#go(this.#find(number), false); }

  #find(number) { return Math.max(this.#frames.findLastIndex((frame) => frame.step <= number), 0); }
  #part(name) { return this.shadowRoot.querySelector(name); }
  /** Every request has a colour; by the golden angle those of neighbours differ. */
  #hue(id) {
    const index = this.#trace.requests.findIndex((request) => request.id === id), hue = (index * 137.5 + 380) % 360;
    return `light-dark(hsl(${hue} 55% 30%), hsl(${hue} 55% 74%))`;
  }
  #chip(id) { return `<span class="chip" style="--fill:${this.#hue(id)}">${escape(id)}</span>`; }

  #build() {
    this.shadowRoot.innerHTML = BODY;
    const { caption, name, source } = this.#trace, frames = this.#frames, last = frames.length - 1;
    this.#part("figcaption").textContent = this.getAttribute("caption") ?? caption ?? (name || source);
    if (!frames.length) return this.#part("figcaption").parentNode.replaceChildren(this.#part("figcaption"));
    this.#buildGrid();
    this.#part("input").max = last;
    this.#part("input").oninput = (event) => this.#go(Number(event.target.value));
    this.#part(".back").onclick = () => this.#go(this.#index - 1);
    this.#part(".next").onclick = () => this.#go(this.#index + 1);
    this.#part(".play").onclick = () => this.#play(!this.#timer);
    this.#part("figure").onkeydown = (event) => this.#key(event);
    this.#part(".sheet").onclick = ({ target, clientX }) => {
      const { left, width } = this.#part(".cursor").getBoundingClientRect();
      if (!target.closest(".label")) this.#go(this.#index + Math.floor((clientX - left) / width));
    };
    const numBlocks = this.#tiles(frames[0]).length;
    this.#part(".blocks").classList.add(...(numBlocks > 64 ? ["many"] : []), ...(numBlocks > 256 ? ["tiny"] : []));
    const most = Math.max(...frames.map((frame) => frame.running.length));
    this.#part(".rows").style.minHeight = `${Math.min(25 * (most + 1), 240)}px`; // what follows stays where it is
    const scroll = this.#part(".scroll"), sideways = new ResizeObserver(() => {
      this.#part(".sideways").hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
    });
    for (const part of [scroll, this.#part(".sheet")]) sideways.observe(part);
    this.#go(this.#index, false);
  }

  #buildGrid() {
    const { requests, config } = this.#trace, frames = this.#frames, sheet = this.#part(".sheet");
    const cells = frames.flatMap((frame) => [...frame.cells.values()]), every = frames.length > 40 ? 5 : 1;
    const ticks = frames.filter((_, i) => i % every === 0).map(({ step }, i) => {
      const n = Math.min(every, frames.length - i * every);
      return `<span class="tick" style="--n:${n};--digits:${String(step).length}">${escape(step)}</span>`;
    });
    const rows = requests.map(({ id, prompt_text: title = id }) => {
      const label = `<b class="label" style="--fill:${this.#hue(id)}" title="${escape(title)}">${escape(id)}</b>`;
      return `<div class="row">${label}${runsOf(id, frames)}</div>`;
    });
    const held = frames.map((frame) => config.num_blocks - 1 - frame.numFree);
    sheet.innerHTML = `<div class="row top"><b class="label">step</b>${ticks.join("")}</div>${rows.join("")}` +
      `${gauge("tokens", frames.map(budgetUsed), "first")}${gauge("blocks", held)}<div class="cursor"></div>`;
    const most = cells.reduce((n, cell) => Math.max(n, cell.n ?? 0), 0);
    const widest = String(most).length + cells.some((cell) => SIGNS[cell.mark]);
    const longest = Math.max(11, ...requests.map((request) => request.id.length));
    sheet.style.cssText = `--steps:${frames.length};--widest:${widest};--longest:${longest}`;

    const entries = [...Object.entries(MARKS), ["finished", "finished"], ["aborted", "aborted"]];
    const used = new Set(cells.flatMap((cell) => classOf(cell).split(" ")));
    this.#part("ul").innerHTML = entries.filter(([name]) => used.has(name)).map(([name, meaning]) =>
      `<li><b class="cell ${name}" aria-hidden="true">${SIGNS[name] ?? ""}</b>${meaning}</li>`).join("");
  }

  #key(event) {
    const target = { ArrowLeft: this.#index - 1, ArrowRight: this.#index + 1, Home: 0, End: Infinity }[event.key];
    const isPlay = event.key === " " && event.target.localName !== "button"; // a button is pressed by it
    if (event.altKey || event.ctrlKey || event.metaKey || (target === undefined && !isPlay)) return;
    event.preventDefault();
    if (isPlay) this.#play(!this.#timer);
    else this.#go(target);
  }

  #play(on) {
    clearInterval(this.#timer);
    this.#timer = 0;
    const button = this.shadowRoot?.querySelector(".play"), last = this.#frames.length - 1;
    if (!button) return;
    button.ariaLabel = on ? "Pause" : "Play";
    button.firstChild.textContent = on ? "⏸" : "▶";
    if (!on) return;
    if (this.#index === last) this.#go(0);
    this.#timer = setInterval(() => (this.#index < last ? this.#go(this.#index + 1) : this.#play(false)), 800);
  }

  /** Show a step. isOwn: it was chosen here, so figures with the same `sync` follow. */
  #go(index, isOwn = true) {
    if (!this.#frames.length || !this.isConnected) return;
    this.#index = Math.max(0, Math.min(this.#frames.length - 1, index));
    this.#part(".say").ariaLive = isOwn && !this.#timer ? "polite" : "off"; // a whole run is not read out
    this.#showStep();
    this.#follow();
    if (!isOwn) return;
    this.dispatchEvent(new CustomEvent("step", { detail: this.step, bubbles: true }));
    for (const other of document.querySelectorAll("kv-timeline[sync]"))
      if (other !== this && other.getAttribute("sync") === this.getAttribute("sync")) other.step = this.step;
  }

  /** Scroll to the chosen step, and to a request that computes in it. */
  #follow() {
    const scroll = this.#part(".scroll"), { offsetLeft, offsetWidth } = this.#part(".cursor"), row = 24;
    const label = this.#part(".label").offsetWidth, width = scroll.clientWidth - label - offsetWidth;
    const x = offsetLeft - label, height = scroll.clientHeight - 4 * row; // without step, requests' last row, gauges
    if (x < scroll.scrollLeft || x > scroll.scrollLeft + width) scroll.scrollLeft = x - width / 2;
    const { cells } = this.#frames[this.#index];
    const places = this.#trace.requests.flatMap(({ id }, i) => (cells.get(id)?.n ? [i * row] : []));
    const isSeen = (y) => y >= scroll.scrollTop && y <= scroll.scrollTop + height;
    if (places.length && !places.some(isSeen)) scroll.scrollTop = places[0] - height / 2;
  }

  #showStep() {
    const { num_blocks: numBlocks, max_num_batched_tokens: budget } = this.#trace.config;
    const frame = this.#frames[this.#index], used = budgetUsed(frame);
    const isCached = (block) => frame.cached.has(block), numHits = frame.free.filter(isCached).length;
    const show = (name, text) => (this.#part(name).textContent = text);
    this.#part(".cursor").style.setProperty("--i", this.#index);
    Object.assign(this.#part("input"), { value: this.#index, ariaValueText: `step ${frame.step}` });
    show("output", `step ${frame.step} of ${this.#frames.at(-1).step}`);
    show(".say", describe(frame, this.#frames[this.#index - 1]));
    const numHeld = numBlocks - 1 - frame.numFree;
    show(".usage", `KV blocks: ${numHeld} held, ${frame.numFree} free, ${numHits} of these cached`);
    const queue = frame.free.slice(0, 24).map((block) => `${block}${isCached(block) ? "*" : ""}`).join(" ");
    show(".note", "A bar below, or * in the queue: the prefix cache can find the block. Free queue, next to be taken " +
      `first: ${queue || "empty"}${frame.numFree > 24 ? " …" : ""}`);
    show(".budget", `Token budget: ${used} of ${budget} used`);

    this.#part(".blocks").innerHTML = this.#tiles(frame).join("");
    const shares = [...frame.cells].filter(([, { n }]) => n).map(([id, { n }]) =>
      `<i style="--fill:${this.#hue(id)};width:${(100 * n) / budget}%" title="${escape(id)}: ${n}"></i>`);
    this.#part(".bar").innerHTML = shares.join("");
    const rows = frame.running.map((id) => {
      const { start = "", n = 0, known = "" } = frame.cells.get(id) ?? {}, table = frame.tables.get(id) ?? [];
      return `<tr><td>${this.#chip(id)}<td>${escape(`${start} + ${n}`)}<td>${known}<td>${escape(table.join(" "))}`;
    });
    const head = ["request", "computed", "tokens", "block table"].map((name) => `<th scope="col">${name}`).join("");
    this.#part(".rows").innerHTML = rows.length ? `<table><tr>${head}${rows.join("")}</table>` : "none";
    this.#part(".queue").innerHTML = frame.waiting.map((id) => this.#chip(id)).join("") || "none";
  }

  /** A block is filled if one request holds it, striped if several do, dashed if it is free. */
  #tiles(frame) {
    const { num_blocks: numBlocks } = this.#trace.config, holders = new Map();
    const count = numBlocks <= 129 ? numBlocks - 1 : highestBlock(this.#trace);
    for (const [id, table] of frame.tables)
      for (const block of table) holders.set(block, [...(holders.get(block) ?? []), id]);
    return Array.from({ length: count }, (_, i) => {
      const block = i + 1, ids = holders.get(block) ?? [], hues = ids.map((id) => this.#hue(id)), names = ids.join(" ");
      const stripes = hues.map((hue, k) => `${hue} ${(100 * k) / ids.length}% ${(100 * (k + 1)) / ids.length}%`);
      const fill = ids.length > 1 ? `linear-gradient(90deg, ${stripes})` : (hues[0] ?? "transparent");
      const kind = (["free", "held"][ids.length] ?? "shared") + (frame.cached.has(block) ? " cached" : "");
      const who = names.length > 6 && ids.length > 1 ? `${ids.length} hold` : names;
      const title = escape(`block ${block}, ${kind}${names && `: ${names}`}`);
      return `<div class="block ${kind}" style="--fill:${fill}" title="${title}"><i>${escape(who)}</i>${block}</div>`;
    });
  }
}

/** Turn the page's div.kv-timeline[data-src] into figures; the text in them is folded behind the figure. */
export function upgrade(places = document.querySelectorAll("div.kv-timeline[data-src]")) {
  for (const div of places) {
    if (div.querySelector("kv-timeline")) continue;
    const figure = document.createElement("kv-timeline"), details = document.createElement("details");
    for (const [name, value] of Object.entries(div.dataset)) figure.setAttribute(name, value);
    const summary = Object.assign(document.createElement("summary"), { textContent: "The same as text" });
    details.append(summary, ...div.childNodes);
    figure.addEventListener("drawn", () => div.append(details)); // not before: it would jump
    figure.addEventListener("failed", () => div.append(Object.assign(details, { open: true })));
    div.append(figure);
  }
}

if (globalThis.customElements && !customElements.get("kv-timeline")) customElements.define("kv-timeline", KVTimeline);
