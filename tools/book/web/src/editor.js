// The editor of cells and labs: CodeMirror with what Python needs, in the colours of the theme.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colour = (name) => ({ color: `var(--md-code-hl-${name}-color)` });
const style = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.self, tags.null, tags.bool], ...colour("keyword") },
  { tag: [tags.string, tags.docString], ...colour("string") },
  { tag: tags.number, ...colour("number") },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], ...colour("function") },
  { tag: tags.comment, ...colour("comment") },
]);

/** An editor in `parent`. run: by Ctrl-Enter; leave: by Escape, so that Tab may indent; changed: at every edit. */
export function makeEditor(parent, { label, text, readOnly = false, run, leave, changed }) {
  const command = (action) => () => (action?.(), true);
  const view = new EditorView({
    parent,
    doc: text,
    extensions: [
      keymap.of([
        { key: "Mod-Enter", run: command(run) },
        { key: "Ctrl-Enter", run: command(run) },
        { key: "Escape", run: command(leave) },
        ...(readOnly ? [] : [indentWithTab]),
        ...historyKeymap,
        ...defaultKeymap,
      ]),
      lineNumbers(),
      history(),
      drawSelection(),
      indentUnit.of("    "),
      indentOnInput(),
      bracketMatching(),
      python(),
      syntaxHighlighting(style),
      EditorState.readOnly.of(readOnly),
      EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
      EditorView.updateListener.of((update) => update.docChanged && changed?.(update.state.doc.toString())),
    ],
  });
  return {
    text: () => view.state.doc.toString(),
    replace: (insert) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert } }),
  };
}
