// The page of all labs: a column more, which says how far each lab is in this browser.
import { countOf, element, recall, textOf } from "./browser.js";

export function upgrade([place]) {
  place.dataset.ready = "";
  const [head, ...rows] = place.querySelectorAll("tr");
  head.append(element("th", { scope: "col" }, "in this browser"));
  for (const row of rows) {
    const [id] = row.cells[0].textContent.trim().split(" ");
    row.append(element("td", {}, stateOf(id)));
  }
}

function stateOf(id) {
  const count = recall(countOf(id));
  if (count === null) return recall(textOf(id)) === null ? "" : "begun";
  const [green, all] = count.split(" of ");
  return green === all ? "✓ done" : `${count} green`;
}
