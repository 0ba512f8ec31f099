// `node purge.mjs SITE`: leaves out of the theme's style sheets what no page of the built site and no script of it names.
// A phone waits for every byte of them before it draws the first line.
import { readdir, writeFile } from "node:fs/promises";
import { PurgeCSS } from "purgecss";

const site = process.argv[2];
const css = (await readdir(`${site}/assets/stylesheets`)).map((name) => `${site}/assets/stylesheets/${name}`);
const content = [`${site}/**/*.html`, `${site}/assets/*.js`, `${site}/assets/javascripts/**/*.js`];
const purged = await new PurgeCSS().purge({ content, css });
for (const { file, css } of purged) await writeFile(file, css);
