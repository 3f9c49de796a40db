// The official Node client against one gateway: `node conformance.mjs`, with OPENAI_BASE_URL and
// OPENAI_API_KEY set, prints one JSON object, a key per case. What the answers must be is asserted
// by tests/integration/gateway/clients/test_openai_node.py, which wrote the script of the model behind it.
import OpenAI from "openai";

const ask = (content) => [{ role: "user", content }];
const client = new OpenAI({ maxRetries: 0, timeout: 60_000 });

async function failure(call) {
  try {
    await call();
  } catch (error) {
    return { kind: error.constructor.name, status: error.status ?? null, code: error.code ?? null,
             message: error.message, request: error.requestID ?? null };
  }
  return { kind: "none" };
}

async function streamed(body) {
  const stream = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
  let words = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) words += 1;
  return { words, completion: await stream.finalChatCompletion() };
}

// Without the helper, which takes a stream that merely ends for a broken one.
async function broken(content) {
  let words = 0;
  const found = await failure(async () => {
    const stream = await client.chat.completions.create(
      { model: "small", messages: ask(content), stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) words += 1;
  });
  return { ...found, words };
}

// How often the client of a program that sets nothing asks before it gives up.
async function asked(content) {
  let requests = 0;
  const counting = (url, options) => { requests += 1; return fetch(url, options); };
  const usual = new OpenAI({ timeout: 60_000, fetch: counting });
  const { kind, status } = await failure(
    () => usual.chat.completions.create({ model: "small", messages: ask(content) }));
  return { kind, status, requests };
}

async function abandoned() {
  const stream = await client.chat.completions.create(
    { model: "small", messages: ask("a long story"), stream: true });
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break;
  return { left: true };
}

async function picture() {
  const url = "data:image/png;base64,iVBORw0KGgo=";
  const answer = await client.chat.completions.create({ model: "small", messages: [{ role: "user", content: [
    { type: "text", text: "good day" }, { type: "image_url", image_url: { url } }] }] });
  return answer.choices[0].message.content;
}

async function toolResults() {
  const first = await client.chat.completions.create({ model: "small", messages: ask("what time"), tools });
  const message = first.choices[0].message;
  const results = message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "12:00" }));
  const second = await client.chat.completions.create(
    { model: "small", messages: [...ask("what time"), message, ...results], tools });
  return second.choices[0].message.content;
}

async function responses() {
  const whole = await client.responses.create({ model: "small", input: "good day" });
  const stream = client.responses.stream({ model: "small", input: "good day" });
  const kinds = [];
  for await (const event of stream) kinds.push(event.type);
  return { whole: whole.output_text, streamed: (await stream.finalResponse()).output_text, kinds };
}

async function schema() {
  const river = { type: "object", additionalProperties: false, required: ["name", "length_km"],
                  properties: { name: { type: "string", minLength: 3, maxLength: 12 },
                                length_km: { type: "integer", minimum: 1, maximum: 9999 } } };
  const answer = await client.chat.completions.create({
    model: "smollm2", messages: ask("Name a river."), max_tokens: 200,
    response_format: { type: "json_schema", json_schema: { name: "river", strict: true, schema: river } } });
  return JSON.parse(answer.choices[0].message.content);
}

async function retried() {
  const patient = new OpenAI({ maxRetries: 2, timeout: 60_000 });
  const answer = await patient.chat.completions.create({ model: "small", messages: ask("later") });
  return answer.choices[0].message.content;
}

const tools = [{ type: "function", function: { name: "time_now", parameters: { type: "object" } } }];
const cases = {
  whole: () => client.chat.completions.create({ model: "small", messages: ask("good day") }),
  streamed: () => streamed({ model: "auto", messages: ask("good day") }),
  toolCalls: () => streamed({ model: "small", messages: ask("what time"), tools }),
  models: async () => (await client.models.list()).data.map((model) => model.id),
  model: () => client.models.retrieve("small"),
  completion: () => client.completions.create({ model: "small", prompt: "good day" }),
  embeddings: async () => (await client.embeddings.create({ model: "small", input: ["a", "b"] }))
    .data.map((one) => one.embedding.length),
  headers: async () => {
    const { response } = await client.chat.completions
      .create({ model: "small", messages: ask("good day") }).withResponse();
    return Object.fromEntries(["x-hearth-expert", "x-hearth-route", "x-request-id",
                               "openai-processing-ms"].map((name) => [name, response.headers.get(name)]));
  },
  unknownModel: () => failure(() => client.chat.completions.create({ model: "smal", messages: ask("x") })),
  wrongKey: () => failure(() => new OpenAI({ apiKey: "sk-wrong", maxRetries: 0 }).models.list()),
  refused: () => failure(() => client.chat.completions.create({ model: "small", messages: ask("refuse") })),
  broken: () => broken("break"),
  brokenHelper: () => failure(() => streamed({ model: "small", messages: ask("break") })),
  asked: async () => {
    const found = {};
    for (const status of [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503])
      found[status] = await asked(`status ${status}`);
    found.final = await asked("final");
    return found;
  },
  picture,
  toolResults,
  responses,
  schema,
  retried,
  abandoned,
};

const results = {};
for (const [name, run] of Object.entries(cases)) {
  try {
    results[name] = await run();
  } catch (error) {
    results[name] = { failed: `${error.constructor.name}: ${error.message}` };
  }
}
console.log(JSON.stringify(results));
