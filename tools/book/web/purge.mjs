// `node purge.mjs SITE`: leaves out of the style sheets what no page of the built site and no script of it names, and of
// the fonts of formulas the faces that no rule is left to ask for. A phone waits for every byte before the first line.
import { readdir, rm, writeFile } from "node:fs/promises";
import { PurgeCSS } from "purgecss";

const FACE = /@font-face\{[^}]*\}/g;
const site = process.argv[2];
const of = async (folder) => (await readdir(`${site}/assets/${folder}`)).map((name) => `${site}/assets/${folder}/${name}`);
const math = `${site}/assets/math.css`;
const content = [`${site}/**/*.html`, `${site}/assets/*.js`, `${site}/assets/javascripts/**/*.js`];
const purged = await new PurgeCSS().purge({ content, css: [...(await of("stylesheets")), math] });
for (const each of purged) if (each.file === math) each.css = withoutFaces(each.css);
for (const { file, css } of purged) await writeFile(file, css);

const sheets = purged.map(({ css }) => css).join("");
for (const file of await of("fonts")) {
  const name = file.split("/").pop();
  if (name.startsWith("KaTeX") && !sheets.includes(name)) await rm(file);
}

/** Formulas are set when the site is built, so their style sheet says which faces they use. */
function withoutFaces(css) {
  const rules = css.replace(FACE, "").match(/[^{}]+\{[^{}]*\}/g);
  const asked = (rule) => ["weight:700", "style:italic"].map((value) => rule.includes(`font-${value}`)).join();
  const isAsked = (face) => {
    const [, family] = face.match(/font-family:([^;}]+)/);
    return rules.some((rule) => rule.includes(family) && asked(rule) === asked(face));
  };
  return css.replace(FACE, (face) => (isAsked(face) ? face : ""));
}
