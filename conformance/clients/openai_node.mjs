// openai-node against a live server: chats, completions, streams, log-probabilities, n, typed errors, abort.
//
//   node openai_node.mjs http://127.0.0.1:8000

import assert from "node:assert/strict";
import OpenAI from "openai";

const base = process.argv[2];
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "What is a KV block?" }];
const model = "tiny";

const models = await client.models.list();
assert.equal(models.data[0].id, model);

const whole = await client.chat.completions.create({ model, messages, temperature: 0, logprobs: true, top_logprobs: 2 });
const text = whole.choices[0].message.content;
assert.equal(whole.choices[0].finish_reason, "stop");
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
const bytes = whole.choices[0].logprobs.content.flatMap((entry) => entry.bytes);
assert.equal(Buffer.from(bytes).toString(), text);

let streamed = "";
let usage = null;
const options = { include_usage: true };
for await (const chunk of await client.chat.completions.create({ model, messages, temperature: 0, stream: true, stream_options: options })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(streamed, text);
assert.deepEqual(usage.completion_tokens, whole.usage.completion_tokens);

const helper = client.chat.completions.stream({ model, messages, temperature: 0 });
assert.equal((await helper.finalChatCompletion()).choices[0].message.content, text);

const several = await client.completions.create({ model, prompt: ["A KV block is", "A step"], n: 2, max_tokens: 5, echo: true, logprobs: 1 });
assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1, 2, 3]);
assert.equal(several.choices[0].logprobs.tokens.join(""), several.choices[0].text);

await assert.rejects(client.chat.completions.create({ model: "other", messages }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model, messages, temperature: 5 }), (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");

const stream = await client.chat.completions.create({ model, messages, stream: true, ignore_eos: true });
for await (const chunk of stream) {
  assert.equal(chunk.object, "chat.completion.chunk");
  break; // it aborts the request
}
const controller = new AbortController();
const pending = client.chat.completions.create({ model, messages, ignore_eos: true }, { signal: controller.signal });
setTimeout(() => controller.abort(), 50);
await assert.rejects(pending, OpenAI.APIUserAbortError);
console.log("openai-node: ok");
