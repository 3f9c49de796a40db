// The AI SDK against one gateway: `node conformance.mjs`, with OPENAI_BASE_URL and OPENAI_API_KEY
// set, prints one JSON object, a key per case. What the answers must be is asserted by
// tests/integration/gateway/clients/test_ai_sdk.py, which wrote the script of the model `small`;
// `smollm2` is the real one.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const baseURL = process.env.OPENAI_BASE_URL;
const apiKey = process.env.OPENAI_API_KEY;
const providers = {
  openai: createOpenAI({ baseURL, apiKey }),
  compatible: createOpenAICompatible({ name: "hearth", baseURL, apiKey, includeUsage: true,
                                       supportsStructuredOutputs: true }),
};
const zones = [];
const timeNow = tool({
  description: "The time in a zone.",
  inputSchema: z.object({ zone: z.string() }),
  execute: async ({ zone }) => { zones.push(zone); return "12:00"; },
});
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async function failure(call) {
  try {
    await call();
  } catch (error) {
    const last = error.lastError ?? error;
    return { kind: last.name, status: last.statusCode ?? null, message: last.message };
  }
  return { kind: "none" };
}

// The second turn sends what the first one answered, as the SDK itself keeps it.
async function twoTurns(model, limits = {}) {
  const first = await generateText({ model, prompt: "good day", ...limits });
  const messages = [{ role: "user", content: "good day" }, ...first.response.messages,
                    { role: "user", content: "good day once more" }];
  const second = await generateText({ model, messages, ...limits });
  return [first.text, second.text];
}

async function streamed(model) {
  const stream = streamText({ model, system: "Be brief.", prompt: "good day" });
  let words = 0;
  for await (const _ of stream.textStream) words += 1;
  return { words, text: await stream.text, output: (await stream.usage).outputTokens,
           finish: await stream.finishReason };
}

// Two calls at once, their results, and the words after them; then one more turn after all that.
async function tools(model) {
  zones.length = 0;
  const stream = streamText({ model, prompt: "what time", tools: { time_now: timeNow },
                              stopWhen: stepCountIs(3) });
  const text = await stream.text;
  const messages = [{ role: "user", content: "what time" }, ...(await stream.response).messages,
                    { role: "user", content: "good day" }];
  const after = await generateText({ model, messages, tools: { time_now: timeNow } });
  return { text, zones: [...zones], after: after.text };
}

async function schema(model) {
  const river = z.object({ name: z.string().min(3).max(12) });
  const answer = await generateText({ model, prompt: "Name a river.", maxOutputTokens: 200,
                                      output: Output.object({ schema: river }) });
  return answer.output;
}

async function picture(model) {
  const content = [{ type: "text", text: "good day" },
                   { type: "file", mediaType: "image/png", data: PIXEL }];
  return (await generateText({ model, messages: [{ role: "user", content }] })).text;
}

async function abandoned(model) {
  const control = new AbortController();
  const stream = streamText({ model, prompt: "a long story", abortSignal: control.signal,
                              onError: () => {} });
  for await (const _ of stream.textStream) { control.abort(); break; }
  return true;
}

async function broken(model) {
  const stream = streamText({ model, prompt: "break", maxRetries: 0, onError: () => {} });
  for await (const part of stream.fullStream)
    if (part.type === "error") return String(part.error.message ?? JSON.stringify(part.error));
  return "no error";
}

const results = {};
for (const [name, provider] of Object.entries(providers)) {
  const small = provider("small");
  const cases = {
    twoTurns: () => twoTurns(small),
    streamed: () => streamed(small),
    tools: () => tools(small),
    schema: () => schema(provider("smollm2")),
    realTurns: () => twoTurns(provider("smollm2"), { maxOutputTokens: 6 }),
    picture: () => picture(small),
    refused: () => failure(() => generateText({ model: small, prompt: "refuse", maxRetries: 0 })),
    unknownModel: () => failure(
      () => generateText({ model: provider("smal"), prompt: "x", maxRetries: 0 })),
    retried: async () => (await generateText({ model: small, prompt: `later for ${name}` })).text,
    broken: () => broken(small),
    abandoned: () => abandoned(small),
  };
  results[name] = {};
  for (const [label, run] of Object.entries(cases)) {
    try {
      results[name][label] = await run();
    } catch (error) {
      results[name][label] = { failed: `${error.name}: ${error.message}` };
    }
  }
}
console.log(JSON.stringify(results));
