// Small helpers for making elements.

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
