// A form of fields, and what it says at once when one of them changes.
import { element } from "./browser.js";

const WIDEST = 560; // of a picture

export const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const rounded = (value) => Number(value.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 });

/** A slider over these values. */
export const steps = (label, values, value) => ({ label, values, value });

const SVG = "http://www.w3.org/2000/svg";

export function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

let fieldNumber = 0;

/** A labelled input. read() is its value; write(value) sets it, where that is possible. */
function makeField({ label, options, values, value, number }, changed) {
  const id = `calculator-${++fieldNumber}`;
  const name = element("label", { for: id, textContent: label });
  if (options) {
    const input = element("select", { id, oninput: changed }, ...options.map((each) => new Option(each, each)));
    input.value = value;
    return { root: element("div", { className: "field" }, name, input), input, read: () => input.value };
  }
  if (number) {
    const input = element("input", { id, type: "number", min: 0, step: "any", oninput: changed });
    const write = (given) => (input.value = String(given).replaceAll(",", ""));
    return { root: element("div", { className: "field" }, name, input), input, read: () => +input.value || 0, write };
  }
  const input = element("input", { id, type: "range", min: 0, max: values.length - 1, value: values.indexOf(value) });
  const shown = element("output", { for: id });
  const read = () => values[+input.value];
  const show = () => {
    const text = grouped(read(), read() % 1 ? 2 : 0);
    shown.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  input.oninput = () => (show(), changed());
  show();
  return { root: element("div", { className: "field" }, name, element("div", {}, input, shown)), input, read };
}

export function makeCalculator(place, { title, fields, results, picture, presets }, calculator) {
  const said = element("dl", { className: "calculator-results", "aria-live": "polite" });
  const drawing = element("div", { className: "calculator-picture" });
  const made = {};
  const values = () => Object.fromEntries(Object.entries(made).map(([name, field]) => [name, field.read()]));
  const preset = () => {
    for (const [name, value] of Object.entries(presets(values()))) made[name].write(value);
  };
  const show = () => {
    const rows = results.call(calculator, values());
    said.replaceChildren(
      ...rows.map(([what, is]) => element("div", {}, element("dt", {}, what), element("dd", {}, is))),
    );
    const width = Math.min(WIDEST, drawing.clientWidth || WIDEST); // so that its text is as large as other text
    if (picture) drawing.replaceChildren(picture.call(calculator, values(), width));
  };
  for (const [name, field] of Object.entries(fields)) {
    const sets = presets && (name === "model" || name === "card");
    made[name] = makeField(field, () => {
      if (sets) preset();
      show();
    });
  }
  if (presets) preset();
  const form = element("div", { className: "calculator-fields" }, ...Object.values(made).map((field) => field.root));
  const group = element("div", { className: "calculator-form", role: "group", "aria-label": title });
  group.append(form, said, drawing);
  place.replaceChildren(group);
  show();
}
