// The calculators of docs/calculators.md, which has each formula in plain text. The first half is arithmetic alone.
import LOAD from "../../../../docs/assets/load.json" with { type: "json" };
import { element } from "./browser.js";
import { drawn, grouped, makeCalculator, rounded, steps } from "./forms.js";

// --- models and cards: their public configurations and data sheets, cited in the page --------------------------------

const model = (layers, hidden, heads, intermediate, vocab, more = {}) => {
  const all = { layers, hidden, heads, kvHeads: 8, headDim: 128, intermediate, vocab, tied: false, qkNorm: false };
  return { ...all, ...more };
};

export const MODELS = {
  "Qwen3-0.6B": model(28, 1024, 16, 3072, 151936, { tied: true, qkNorm: true }),
  "Llama-3.1-8B": model(32, 4096, 32, 14336, 128256),
  "Qwen3-32B": model(64, 5120, 64, 25600, 151936, { qkNorm: true }),
  "Llama-3.3-70B": model(80, 8192, 64, 28672, 128256),
};

export const CARDS = {
  "L4, 24 GB": { bytes: 24e9, bandwidth: 300e9, flops: 121e12 },
  "A100, 80 GB": { bytes: 80e9, bandwidth: 2039e9, flops: 312e12 },
  "H100, 80 GB": { bytes: 80e9, bandwidth: 3350e9, flops: 989e12 },
  "H200, 141 GB": { bytes: 141e9, bandwidth: 4800e9, flops: 989e12 },
};

export const BYTES = { "bfloat16, 2 bytes": 2, "fp8, 1 byte": 1, "float32, 4 bytes": 4 };
const TWO = Object.keys(BYTES)[0];

// Of a step, as mini_vllm's EngineConfig has them by default; they size the activations.
const STEP = { max_num_batched_tokens: 2048, max_num_seqs: 256 };

// --- formulas -------------------------------------------------------------------------------------------------------

/** Parameters: all, and those that a decode step reads (of an embedding table it reads a row a token). */
export function parameters(m) {
  const qkv = m.hidden * m.headDim * (m.heads + 2 * m.kvHeads);
  const norms = 2 * m.hidden + (m.qkNorm ? 2 * m.headDim : 0);
  const layer = qkv + m.heads * m.headDim * m.hidden + 3 * m.hidden * m.intermediate + norms;
  const table = m.vocab * m.hidden;
  const read = m.layers * layer + m.hidden + table;
  return { all: read + (m.tied ? 0 : table), read };
}

/** K and V of one token in every layer; times block_size it is bytes_per_block() of mini_vllm/worker/memory.py. */
export const bytesPerToken = (m, kvBytes) => 2 * m.layers * m.kvHeads * m.headDim * kvBytes;

/** As _activation_bytes() of mini_vllm/worker/memory.py: the widest layer of a step, and its logits in float32, twice. */
export function activationBytes(m) {
  const perToken = 4 * m.hidden + 3 * m.intermediate + 2 * (m.heads + 2 * m.kvHeads) * m.headDim;
  return STEP.max_num_batched_tokens * perToken * 2 + 2 * 4 * STEP.max_num_seqs * m.vocab;
}

/** budget = share of the card - weights - activations; blocks = budget / bytes per block, one of them holds nothing. */
export function planKV({ m, card, share, weightBytes, kvBytes, blockSize }) {
  const perBlock = bytesPerToken(m, kvBytes) * blockSize;
  const weights = parameters(m).all * weightBytes;
  const budget = Math.floor(card.bytes * share) - weights - activationBytes(m);
  const blocks = Math.max(0, Math.floor(budget / perBlock));
  return { perBlock, weights, budget, blocks, slots: Math.max(0, blocks - 1) * blockSize };
}

/** Seconds of a step in which `batch` requests decode: what must be read, what must be computed, the longer one. */
export function decodeStep({ m, card, weightBytes, kvBytes, context, batch }) {
  const { read } = parameters(m);
  const weights = read * weightBytes;
  const kv = batch * context * bytesPerToken(m, kvBytes);
  const reading = (weights + kv) / card.bandwidth;
  const computing = (2 * read * batch) / card.flops;
  return { weights, kv, reading, computing, seconds: Math.max(reading, computing) };
}

/** Slots of a request in a stretch of the longest length, and in blocks: the last block is half empty on average. */
export function slotsHeld({ mean, longest, blockSize }) {
  return { stretch: longest, blocks: mean + (blockSize - 1) / 2 };
}

/** time = a + b * tokens + c * context, in seconds. */
export const stepTime = ({ a, b, c }, tokens, context) => a + b * tokens + c * context;

/** a: the weights are read; b: a token is computed; c: K and V of a token of context are read. */
export function coefficients(m, card) {
  const { read } = parameters(m);
  return { a: (read * 2) / card.bandwidth, b: (2 * read) / card.flops, c: bytesPerToken(m, 2) / card.bandwidth };
}

// --- numbers as text ------------------------------------------------------------------------------------------------

const inGB = (bytes) => `${grouped(bytes / 1e9, 1)} GB`;
const inBytes = (bytes) => {
  const [unit, size] = bytes >= 1 << 20 ? ["MiB", 1 << 20] : ["KiB", 1 << 10];
  return `${grouped(bytes)} bytes (${grouped(bytes / size, bytes % size ? 1 : 0)} ${unit})`;
};
const inMs = (seconds) => `${rounded(seconds * 1e3)} ms`;
const percent = (share) => `${(100 * share).toFixed(1)} %`;

// --- the four calculators: fields, and what they say ----------------------------------------------------------------

const powers = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => 2 ** (first + i));
const choice = (label, from, value) => ({ label, options: Object.keys(from), value: value ?? Object.keys(from)[0] });

const CONTEXT = steps("Context of a request, tokens", powers(7, 17), 4096);
const BLOCK = steps("Block size, tokens", powers(0, 8), 16);
const HARDWARE = {
  model: choice("Model", MODELS, "Llama-3.1-8B"),
  card: choice("Card", CARDS, "A100, 80 GB"),
};
const WEIGHTS = choice("Weights", Object.fromEntries(Object.entries(BYTES).slice(0, 2)));
const KV = choice("KV cache", BYTES);

const resolved = (v) => ({
  ...v,
  m: MODELS[v.model],
  card: CARDS[v.card],
  weightBytes: BYTES[v.weights ?? TWO],
  kvBytes: BYTES[v.kv ?? TWO],
});

const kv = {
  title: "KV cache of a model on a card",
  fields: {
    ...HARDWARE,
    weights: WEIGHTS,
    kv: KV,
    blockSize: BLOCK,
    share: steps("Share of the card (gpu_memory_utilization)", [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95], 0.9),
    context: CONTEXT,
  },
  results(values) {
    const v = resolved(values);
    const plan = planKV(v);
    const token = bytesPerToken(v.m, v.kvBytes);
    const product = `2 × ${v.m.layers} layers × ${v.m.kvHeads} KV heads × ${v.m.headDim} × ${v.kvBytes}`;
    const rows = [
      ["A token", `${product} = ${inBytes(token)}`],
      ["A block", `${v.blockSize} × ${grouped(token)} = ${inBytes(plan.perBlock)}`],
      ["Weights", `${grouped(parameters(v.m).all / 1e9, 2)} × 10⁹ × ${v.weightBytes} = ${inGB(plan.weights)}`],
    ];
    if (plan.blocks < 2) return [...rows, ["Left for the KV cache", "nothing: it does not fit on this card"]];
    const fits = Math.floor(plan.slots / v.context);
    const requests = fits ? `${grouped(fits)} at once` : "not one fits: give a shorter max_model_len";
    return [
      ...rows,
      ["Left for the KV cache", `${inGB(plan.budget)} after ${inGB(activationBytes(v.m))} of activations`],
      ["Blocks", `${grouped(plan.blocks)}, hence ${grouped(plan.slots)} tokens`],
      [`Requests of ${grouped(v.context)} tokens`, requests],
    ];
  },
};

const roofline = {
  title: "Decode: tokens a second",
  fields: {
    ...HARDWARE,
    weights: WEIGHTS,
    kv: KV,
    context: { ...CONTEXT, value: 1024 },
    batch: steps("Requests in the step", [...powers(0, 3), 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512], 32),
  },
  results(values) {
    const v = resolved(values);
    const step = decodeStep(v);
    const roof = step.reading >= step.computing ? "reading is the limit" : "computing is the limit";
    return [
      ["Read in a step", `${inGB(step.weights)} of weights + ${inGB(step.kv)} of K and V`],
      ["Reading takes", inMs(step.reading)],
      ["Computing takes", inMs(step.computing)],
      ["A step takes at least", `${inMs(step.seconds)}: ${roof}`],
      ["Tokens a second, at most", `${rounded(v.batch / step.seconds)}, each request ${rounded(1 / step.seconds)}`],
      ["Requests that fit", fitting(v) ? `${grouped(fitting(v))} of this context` : "none: the card is too small"],
    ];
  },
  picture(values, width) {
    const v = resolved(values);
    const batches = this.fields.batch.values;
    const rate = (batch) => batch / decodeStep({ ...v, batch }).seconds;
    return plot(batches.map((batch) => [batch, rate(batch)]), [v.batch, rate(v.batch)], fitting(v), {
      x: "requests in the step",
      y: "tokens a second",
      width,
      says: `Tokens a second against requests in a step: ${rounded(rate(1))} at 1, ${rounded(rate(512))} at 512`,
    });
  },
};

const fitting = (v) => Math.floor(planKV({ ...v, share: 0.9, blockSize: 16 }).slots / v.context);

const waste = {
  title: "One stretch a request, or blocks",
  fields: {
    mean: steps("Tokens written by a request, on average", [32, 64, 128, 256, 512, 768, 1024, 1221, 2048, 4096], 1221),
    longest: steps("max_model_len, the length of a stretch", powers(9, 17), 8192),
    blockSize: BLOCK,
    slots: steps("Slots of the KV cache", powers(13, 20), 65536),
  },
  results(v) {
    const held = slotsHeld(v);
    if (v.mean > v.longest) return [["Not possible", "a request is not longer than max_model_len"]];
    const row = (slots) => {
      const many = Math.floor(v.slots / slots);
      const each = `${grouped(slots, slots % 1 ? 1 : 0)} slots, ${percent(v.mean / slots)} of them used`;
      return `${each}; ${grouped(many)} request${many === 1 ? "" : "s"} at once`;
    };
    return [
      ["A stretch holds", row(held.stretch)],
      ["Blocks hold", row(held.blocks)],
      ["Blocks serve", `${rounded(held.stretch / held.blocks)} times as many requests`],
    ];
  },
  picture(v, width) {
    const held = slotsHeld(v);
    const shares = [["stretch", v.mean / held.stretch], ["blocks", v.mean / held.blocks]];
    return bars(shares.map(([name, share]) => [name, Math.min(1, share)]), width);
  },
};

const step = {
  title: "time = a + b × tokens + c × context",
  fields: {
    ...HARDWARE,
    a: { label: "a, ms a step", number: 0.01 },
    b: { label: "b, µs a token computed", number: 0.01 },
    c: { label: "c, ns a token of context", number: 0.1 },
    decodes: steps("Requests that decode", [0, 1, 2, 4, 8, 16, 32, 64, 128, 256], 32),
    context: { ...CONTEXT, value: 2048, label: "Context of each, tokens" },
    chunk: steps("Prompt tokens in the same step", [0, 64, 128, 256, 512, 1024, 2048, 4096, 8192], 512),
  },
  /** A model or a card that is chosen sets a, b and c, which may then be changed. */
  presets(v) {
    const { a, b, c } = coefficients(MODELS[v.model], CARDS[v.card]);
    return { a: rounded(a * 1e3), b: rounded(b * 1e6), c: rounded(c * 1e9) };
  },
  results(v) {
    const k = { a: v.a / 1e3, b: v.b / 1e6, c: v.c / 1e9 };
    const [tokens, context] = [v.decodes + v.chunk, v.decodes * v.context];
    const [alone, both] = [stepTime(k, v.decodes, context), stepTime(k, tokens, context)];
    const parts = `${rounded(k.a * 1e3)} + ${rounded(k.b * tokens * 1e3)} + ${rounded(k.c * context * 1e3)}`;
    const rows = [["This step takes", `${parts} = ${inMs(both)}`]];
    if (v.decodes) {
      rows.push(["Decodes alone would take", `${inMs(alone)}, which is the time between two tokens (ITL)`]);
      if (v.chunk) rows.push(["The prompt's chunk makes it", `${rounded(both / alone)} times as long`]);
    }
    const rates = `${rounded(tokens / both)} computed, ${rounded(v.decodes / both)} of them decodes`;
    if (tokens) rows.push(["Tokens a second", rates]);
    return rows;
  },
};

const PERCENTILES = { "p50, the middle": "p50", "p99, the worst of 100": "p99" };

const load = {
  title: "Load and latency",
  fields: {
    rate: steps("Load, requests a second", LOAD.rates, 8),
    budget: steps("Token budget of a step", LOAD.budgets, 512),
    percentile: choice("Curves", PERCENTILES, Object.keys(PERCENTILES)[1]),
  },
  results(v) {
    const at = LOAD.rates.indexOf(v.rate);
    return Object.entries(LOAD.points).map(([scheduler, budgets]) => {
      const point = budgets[v.budget][at];
      if (!point) return [scheduler, "over capacity: the queue grows for as long as requests arrive"];
      const [ttft50, ttft99, itl50, itl99] = point.map(([figure, ...width]) => {
        const shown = [figure, ...width.map((each) => Number(each.toPrecision(2)))];
        return `${shown.map((each) => rounded(each)).join(" ± ")} ms`;
      });
      return [scheduler, `TTFT ${ttft50}, p99 ${ttft99}; ITL ${itl50}, p99 ${itl99}`];
    });
  },
  picture(v, width) {
    const pictures = ["ttft", "itl"].map((time) => {
      const figure = LOAD.figures.indexOf(`${time} ${PERCENTILES[v.percentile]}`);
      const lines = Object.entries(LOAD.points).map(([scheduler, budgets]) => {
        const steady = budgets[v.budget].map((point, i) => [LOAD.rates[i], point?.[figure][0]]);
        return [scheduler, steady.filter(([, value]) => value !== undefined)];
      });
      const name = `${LOAD.figures[figure].toUpperCase()}, ms`;
      return curves(lines, v.rate, { name, width, rates: LOAD.rates });
    });
    return element("div", {}, ...pictures);
  },
};

const CALCULATORS = { kv, roofline, waste, step, load };

// --- pictures -------------------------------------------------------------------------------------------------------

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [240, 64, 40, 12, 14];

/** A curve over logarithmic axes; a dot at `chosen`; a broken line where memory is full. */
function plot(points, chosen, limit, { x, y, width, says }) {
  const decades = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const last = Math.log2(points.at(-1)[0]);
  const [low, high] = decades(points.map((point) => point[1]));
  const atX = (value) => LEFT + (Math.log2(value) / last) * (width - LEFT - RIGHT);
  const atY = (value) => HEIGHT - BOTTOM - ((Math.log10(value) - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": says, class: "plot" });
  const text = (at, what, anchor = "middle") => drawn("text", { x: at[0], y: at[1], "text-anchor": anchor }, what);
  for (let power = low; power <= high; power++) {
    const at = atY(10 ** power);
    picture.append(drawn("path", { class: "plot-grid", d: `M${LEFT} ${at}H${width - RIGHT}` }));
    picture.append(text([LEFT - 6, at + 4], grouped(10 ** power), "end"));
  }
  const every = width < 400 ? 2 : 1; // or one number lies on the next
  for (let power = 0; power <= last; power += every) {
    picture.append(text([atX(2 ** power), HEIGHT - BOTTOM + 16], 2 ** power));
  }
  picture.append(text([(LEFT + width) / 2, HEIGHT - 6], x), text([LEFT + 6, TOP + 10], y, "start"));
  const line = points.map(([a, b]) => `${atX(a).toFixed(1)} ${atY(b).toFixed(1)}`).join("L");
  picture.append(drawn("path", { class: "plot-line", d: `M${line}` }));
  if (limit >= 1 && limit < points.at(-1)[0]) {
    picture.append(drawn("path", { class: "plot-limit", d: `M${atX(limit)} ${TOP}V${HEIGHT - BOTTOM}` }));
    const side = atX(limit) > width / 2 ? [-6, "end"] : [6, "start"];
    picture.append(text([atX(limit) + side[0], HEIGHT - BOTTOM - 8], `memory is full at ${limit}`, side[1]));
  }
  picture.append(drawn("circle", { class: "plot-dot", cx: atX(chosen[0]), cy: atY(chosen[1]), r: 6 }));
  return picture;
}

/** Several lines over a logarithmic axis, each with a dash of its own and a dot at the chosen x; a cross where one ends
 * before the last rate: beyond it the load is over the capacity. */
function curves(lines, chosen, { name, width, rates }) {
  const values = lines.flatMap(([, points]) => points.map(([, value]) => value));
  const [low, high] = [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const atX = (x) => LEFT + (x / rates.at(-1)) * (width - LEFT - RIGHT);
  const atY = (value) => HEIGHT - BOTTOM - ((Math.log10(value) - low) / (high - low)) * (HEIGHT - BOTTOM - TOP - 16);
  const chosenOf = (points) => points.find(([x]) => x === chosen);
  const says = lines.map(([line, points]) => `${line} ${chosenOf(points)?.[1] ?? "over capacity"}`).join(", ");
  const label = `${name} against load; at ${chosen} requests a second: ${says}`;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label, class: "plot" });
  const text = (x, y, what, anchor = "middle") => drawn("text", { x, y, "text-anchor": anchor }, what);
  for (let power = low; power <= high; power++) {
    const at = atY(10 ** power);
    picture.append(drawn("path", { class: "plot-grid", d: `M${LEFT} ${at}H${width - RIGHT}` }));
    picture.append(text(LEFT - 6, at + 4, grouped(10 ** power), "end"));
  }
  for (const x of rates.filter((_, i) => i % (width < 400 ? 4 : 2) === 0)) {
    picture.append(text(atX(x), HEIGHT - BOTTOM + 16, x));
  }
  picture.append(text((LEFT + width) / 2, HEIGHT - 6, "requests a second"));
  lines.forEach(([line, points], i) => {
    const path = points.map(([x, value]) => `${atX(x).toFixed(1)} ${atY(value).toFixed(1)}`).join("L");
    picture.append(drawn("path", { class: `plot-line plot-series-${i}`, d: `M${path}` }));
    const [last, highest] = points.at(-1);
    if (last < rates.at(-1)) {
      const cross = `M${atX(last) - 5} ${atY(highest) - 5}l10 10m0 -10l-10 10`;
      picture.append(drawn("path", { class: `plot-line plot-end plot-series-${i}`, d: cross }));
    }
    if (chosenOf(points)) {
      const dot = { class: `plot-dot plot-series-${i}`, cx: atX(chosen), cy: atY(chosenOf(points)[1]), r: 4 };
      picture.append(drawn("circle", dot));
    }
    const left = LEFT + (i * (width - LEFT - RIGHT)) / lines.length;
    picture.append(drawn("path", { class: `plot-line plot-series-${i}`, d: `M${left} 8h22` }));
    picture.append(text(left + 27, 12, line, "start"));
  });
  picture.append(text(LEFT + 6, TOP + 24, name, "start"));
  return picture;
}

/** A bar a row: the share of the slots that holds tokens. */
function bars(rows, width) {
  const says = rows.map(([name, share]) => `${name}: ${percent(share)} used`).join("; ");
  const box = { viewBox: `0 0 ${width} ${rows.length * 34}`, role: "img", "aria-label": says, class: "plot" };
  const picture = drawn("svg", box);
  rows.forEach(([name, share], i) => {
    const [top, long] = [i * 34 + 6, width - LEFT - RIGHT];
    picture.append(
      drawn("text", { x: LEFT - 8, y: top + 16, "text-anchor": "end" }, name),
      drawn("rect", { class: "plot-wasted", x: LEFT, y: top, width: long, height: 22 }),
      drawn("rect", { class: "plot-used", x: LEFT, y: top, width: Math.max(1, long * share), height: 22 }),
    );
  });
  return picture;
}

export function upgrade(places) {
  for (const place of places) {
    const calculator = CALCULATORS[place.dataset.calculator];
    if (!calculator) continue;
    place.dataset.ready = "";
    makeCalculator(place, calculator, calculator);
  }
}
