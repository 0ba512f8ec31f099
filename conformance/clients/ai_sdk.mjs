// The AI SDK against a live server: a text, a stream, and what it was told of their lengths.
//
//   node ai_sdk.mjs http://127.0.0.1:8000

import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const provider = createOpenAICompatible({ name: "mini_vllm", baseURL: `${process.argv[2]}/v1`, includeUsage: true });
const asked = { model: provider("tiny"), prompt: "What is a KV block?", temperature: 0 };

const whole = await generateText(asked);
assert.equal(whole.finishReason, "stop");
assert.ok(whole.usage.outputTokens > 10);

let streamed = "";
const stream = streamText(asked);
for await (const part of stream.textStream) streamed += part;
assert.equal(streamed, whole.text);
assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
console.log("AI SDK: ok");
