// Two pieces of code that a reader walks through: online softmax, a score at a time, and one Triton program. The code of
// the program is what stands in the page, which is an excerpt of the engine. The first half is arithmetic alone.
import { drawn, makeCalculator, steps } from "./forms.js";

/** What OnlineSoftmax.add has after each score, and by what it scaled its sums. */
export function onlineSoftmax(scores, values) {
  let [m, l, o] = [-Infinity, 0, 0];
  return scores.map((score, i) => {
    const maximum = Math.max(m, score);
    const factor = Math.exp(m - maximum);
    const weight = Math.exp(score - maximum);
    [m, l, o] = [maximum, l * factor + weight, o * factor + weight * values[i]];
    return { score, factor, weight, m, l, o };
  });
}

/** What each line of write_kv_kernel has in one program: by the beginning of the line, in its order. */
export function writeKV(program, { slots, row, block, stride }) {
  const slot = slots[program];
  const lanes = Array.from({ length: block }, (_, i) => i);
  const active = lanes.slice(0, row);
  const [first, to] = [program * stride, slot * row];
  return {
    "token =": program,
    "slot =": slot,
    "if slot": slot >= 0,
    ...(slot >= 0 && {
      "lanes =": lanes,
      "mask =": lanes.map((lane) => lane < row),
      "key =": active.map((number) => first + number),
      "value =": active.map((number) => first + number),
      "tl.store(key_cache": active.map((number) => to + number),
      "tl.store(value_cache": active.map((number) => to + number),
    }),
  };
}

export const EXAMPLE = { slots: [2, -1, 5], row: 6, block: 8, stride: 6 }; // of the picture in the chapter

// --- what they show --------------------------------------------------------------------------------------------------

const VALUES = [7, 14, 21, 28];
const SCORES = Array.from({ length: 25 }, (_, i) => (i - 8) / 2);
const shown = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 5 });

const softmax = {
  title: "Online softmax, a score at a time",
  fields: {
    a: steps("Score 1, of value 7", SCORES, 0),
    b: steps("Score 2, of value 14", SCORES, 1.5),
    c: steps("Score 3, of value 21", SCORES, 0.5),
    d: steps("Score 4, of value 28", SCORES, 3),
    more: steps("Added to all scores", [0, 10, 100, 1000], 0),
  },
  steps: ({ a, b, c, d, more }) => onlineSoftmax([a, b, c, d].map((score) => score + more), VALUES),
  results(v) {
    return this.steps(v).map(({ score, factor, weight, m, l, o }, i) => {
      const scaled = i && factor < 1 ? `the sums shrink by ${shown(factor)}; ` : i ? "nothing shrinks; " : "";
      return [`Score ${shown(score)}`, `${scaled}weight ${shown(weight)}, m ${shown(m)}, l ${shown(l)}, o / l ${shown(o / l)}`];
    });
  },
  picture(v, width) {
    const all = this.steps(v);
    const [pitch, height] = [width / all.length, 110];
    const says = all.map(({ m }, i) => `after score ${i + 1} the largest is ${shown(m)}`).join("; ");
    const picture = drawn("svg", { viewBox: `0 0 ${width} ${height + 34}`, role: "img", "aria-label": says, class: "plot" });
    all.forEach(({ m }, i) => {
      const bar = (pitch - 16) / all.length;
      for (let j = 0; j <= i; j++) {
        const tall = Math.max(1, height * Math.exp(all[j].score - m));
        const at = { x: i * pitch + 8 + j * bar, y: height + 8 - tall, width: bar - 3, height: tall };
        picture.append(drawn("rect", { class: j === i ? "plot-newest" : "plot-used", ...at }));
      }
      picture.append(
        drawn("path", { class: "plot-grid", d: `M${i * pitch + 4} ${height + 8}h${pitch - 12}` }),
        drawn("text", { x: (i + 0.5) * pitch - 2, y: height + 26, "text-anchor": "middle" }, `score ${i + 1}`),
      );
    });
    return picture;
  },
};

const WORDS = {
  "if slot": (yes) => (yes ? "true" : "false: the program ends, and stores nothing"),
  "mask =": (mask) => mask.map((each) => (each ? "on" : "off")).join(" "),
  "key =": (places) => `elements ${places.join(" ")} of key`,
  "value =": (places) => `elements ${places.join(" ")} of value`,
  "tl.store(key_cache": (places) => `to elements ${places.join(" ")} of the key cache`,
  "tl.store(value_cache": (places) => `to elements ${places.join(" ")} of the value cache`,
};

/** The lines are those that stand in the page. */
function program(place) {
  const lines = place.querySelector("code").textContent.trimEnd().split("\n");
  return {
    title: "One program of write_kv_kernel, line by line",
    fields: {
      number: steps("program_id(0)", [0, 1, 2], 0),
      line: steps("Lines that have run", lines.map((_, i) => i + 1), 2),
    },
    results({ number, line }) {
      const has = writeKV(number, EXAMPLE);
      return lines.map((text, i) => {
        const key = Object.keys(has).find((beginning) => text.trim().startsWith(beginning));
        if (i >= line) return [text, ""];
        if (!key) return [text, "does not run"];
        return [text, WORDS[key]?.(has[key]) ?? [has[key]].flat().join(" ")];
      });
    },
  };
}

export function upgrade(places) {
  for (const place of places) {
    const found = place.dataset.stepper === "softmax" ? softmax : program(place);
    makeCalculator(place, found, found);
    if (found !== softmax) place.querySelector("dl").tabIndex = 0; // on a phone it scrolls, so keys must reach it
  }
}
