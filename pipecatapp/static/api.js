// The one place that fetches. Errors come as ApiError with a sentence for people; a lost session is told to the app.

export class ApiError extends Error {
  /** `run` is the run that failed, where there is one. */
  constructor(message, { status = 0, type = "", code = "", run = null } = {}) {
    super(message)
    Object.assign(this, { status, type, code, run })
  }
}

export const get = async (path, options) => (await call("GET", path, options)).json()
export const post = async (path, body, options) => (await call("POST", path, { ...options, body })).json()

export async function signIn(key) {
  await call("POST", "/api/session", { body: { key }, asking: true })
  localStorage.setItem("hearth.signed-in", "yes")
}

export async function signOut() {
  localStorage.removeItem("hearth.signed-in")
  await call("DELETE", "/api/session", { asking: true })
}

/** Whether this browser signed in before; the server has the last word with every answer. */
export const signedIn = () => localStorage.getItem("hearth.signed-in") === "yes"

/**
 * Asks a model and yields the pieces of its answer. `onRun(id)` tells the run behind it before the first piece.
 * Throws ApiError when the answer breaks off, AbortError when `signal` ends it.
 */
export async function* ask({ model, messages, conversation, signal, onRun }) {
  const response = await call("POST", "/v1/chat/completions", { body: { model, messages, conversation, stream: true }, signal })
  const run = response.headers.get("x-hearth-run")
  if (run) onRun(run)
  for await (const data of dataLines(response.body)) {
    if (data === "[DONE]") return
    const piece = JSON.parse(data)
    if (piece.error) throw new ApiError(piece.error.message, piece.error)
    const text = piece.choices?.[0]?.delta?.content
    if (text) yield text
  }
  throw new ApiError("The answer broke off before its end.")
}

async function* dataLines(body) {
  let rest = ""
  for await (const text of decoded(body)) {
    const lines = (rest + text).split(/\r?\n/)
    rest = lines.pop()
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim()
  }
}

async function* decoded(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value
  } catch (cause) {
    if (cause.name === "AbortError") throw cause
    throw new ApiError("The connection to Hearth was lost while it was answering.")
  } finally {
    reader.cancel().catch(() => {}) // already closed or broken: nothing is left to cancel
  }
}

async function call(method, path, { body, signal, asking = false } = {}) {
  const headers = body === undefined ? {} : { "content-type": "application/json" }
  let response
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" })
  } catch (cause) {
    if (cause.name === "AbortError") throw cause
    throw new ApiError("Hearth cannot be reached. Is it still running?")
  }
  if (response.ok) return response
  if (response.status === 401 && !asking) sessionLost()
  throw await refusal(response)
}

export function sessionLost() {
  localStorage.removeItem("hearth.signed-in")
  window.dispatchEvent(new Event("session-lost"))
}

async function refusal(response) {
  const text = await response.text()
  const run = response.headers.get("x-hearth-run")
  try {
    const { error } = JSON.parse(text)
    return new ApiError(error.message, { status: response.status, type: error.type, code: error.code, run })
  } catch {
    return new ApiError(`Hearth answered ${response.status} ${response.statusText}`.trim(), { status: response.status })
  }
}
