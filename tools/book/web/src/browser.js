// Small helpers of a page: making elements, and keeping things from visit to visit.

/** An element with properties (a name with a dash is an attribute, an event is on...) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

export const button = (text, onclick, properties = {}) =>
  element("button", { type: "button", textContent: text, onclick, ...properties });

// What the browser keeps from visit to visit: the text of each lab, and how many of its tests were green. It may refuse.

export const textOf = (id) => `mini_vllm lab ${id}`;
export const countOf = (id) => `mini_vllm lab ${id} green`;

export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Keep a text; null forgets it. */
export function remember(key, text) {
  try {
    if (text === null) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // it is gone with the page then
  }
}
