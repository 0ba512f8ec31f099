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
